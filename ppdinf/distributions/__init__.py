"""What PyMC has to know of a confidential table: random variables, densities, what depends on them.

Rule: symbolic; whatever a user makes of the table enters its law or is refused.

alike                  cells that have the same law whatever the parameters are, so that one of them tells what the
                       counts of all weigh
answers                windows and moves of confidential cells, where a release answers linear queries W x on them
apart                  A value set apart from the parameters that it was computed from: no gradient flows through it
cells                  which cell of a table each element of a graph looks at, derived from the operations that the
                       graph is made of
confidential           PyMC's view of a confidential table: a random variable of which the released one is an
                       observation
data_model_draws       draws of cells from the data model alone, for cells that nothing published depends on
dependents             what else in a model depends on its confidential tables, and what that tells about them
factors                densities of what depends on a confidential table, taken apart by cell
layout                 from what was observed and a data model to a fiber: windows, supports, moves and a table to start
                       from
marginal               marginal likelihood of a noisy table with public totals, as a differentiable PyTensor expression
measured_moves         moves of a table that leave some of its noisy sums as they are
mechanism_dist         a mechanism's law as a PyMC distribution: the release of a table that is itself a variable
natural                data models of the form ``h(x) exp(eta x) / Z(eta)``: only eta varies, so no table of densities
                       is rebuilt
nested_marginal        marginal likelihood of a table whose measured and exact sums nest, as a differentiable PyTensor
                       expression
nested_plan            measured and exact sums that nest, as a forest of which the total weight is known exactly
observed               what was observed of a confidential table: made once from what was published, and asked by
                       everything that comes after
observed_measurements  measurements of one table, as they speak of its cells
observed_release       a release, as it speaks of the confidential cells
of_table               a number that depends on a table as a whole, computed outside of PyTensor's graphs
plain_tables           latent integers of plain models, as tables of which exact sums, and perhaps releases, are known
precision              distributions in double precision, whatever their parameters were written as; and which of these
                       are constants
released               the mechanism as a likelihood: the released table given the confidential one
rows                   multinomial rows as independent cells: the same density wherever the totals of the rows are
                       public
summed_out             the marginal likelihood of a release: its confidential table summed out, with everything that
                       depends on it
sums_given_totals      sums given their totals as an Op of PyTensor: value and gradient, in compiled code
table_moves            the plan of how a table moves: moves that are proved to connect its support, or exact draws
told                   a potential by cell as a random variable that was observed, so that its table can be summed out
                       with it
truncation             truncation of counts: which cells have a window, how wide it is, and the probability outside it
watch                  what is added to a model while one of its tables is summed out
windows                windows of counts: where noise, public statements and the data model let each confidential count
                       be
"""
