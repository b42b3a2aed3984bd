"""Moves that connect the tables of a fiber: Markov bases and special families.

decomposable   decomposable models: sets of margins that hang together like a tree
families       families of moves, drawn at random without being listed
graph_cycles   cycles of a graph as moves of two-way tables within bounds
margin_swaps   swaps that keep margins of an n-way table, for any set of margins
markov         markov and Graver bases computed by 4ti2, where that program is installed
moves          sets of moves that connect every fiber, with the reason why they do
support_moves  moves that are proved to connect the tables of a support
"""
