"""COVID-19 in 67 counties: releases with public totals, and posteriors of cases and deaths."""
