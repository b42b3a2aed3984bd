"""Case studies of the papers; `ppdinf reproduce` runs them."""
