"""Moves that connect the tables of a fiber: Markov bases and special families.

decomposable   Decomposable models: junction trees of sets of margins.
families       Families of moves that are drawn at random without a list of all moves.
graph_cycles   Cycles of a graph as moves of two-way tables within bounds.
margin_swaps   Swaps that preserve margins of an n-way table, for any set of margins.
markov         Markov and Graver bases computed by 4ti2, if it is installed.
moves          Sets of moves that connect every fiber, with the reason.
support_moves  Moves that are proved to connect the tables of a support.
"""
