"""Mechanisms whose releases also satisfy bounds, or use a base measure.

base_measure             weights of released counts, whatever the confidential table is
conditioned              congenial mechanisms: independent noise, conditioned on everything public
dirichlet_multinomial    base measures that know an earlier table: Dirichlet-multinomial weights of the released
                         counts
l2_normalizer            total weight of all releases with l2 noise, by quadrature over the scale of a mixture of
                         Gaussians
stated_loss              the law of the Wasserstein exponential mechanism with any loss, over tables that are few
                         enough to list
table_sums               the total weight of all releases of a table, by elimination: noise and base measures
                         tabulated cell by cell
tilting                  tilted noise: windows of weights around a public sum that bounds have put out in the tail
                         of the law
wasserstein_exponential  the Wasserstein exponential mechanism on integer tables, with base measures that know what
                         is public
weighted                 whole tables weighted by noise, within bounds: conditioned, wasserstein (stated_loss,
                         base_measure, dirichlet_multinomial, summing_out, tilting, l2_normaliser)
"""
