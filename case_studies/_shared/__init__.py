"""Code that all case studies use.

count_texts      Counts in files whose errors name their place.
estimates        Numbers with their Monte Carlo errors, and the claims that they decide.
replicate_files  Results of replicates as NumPy archives, which are read without running code.
study            One run of a case study: claims with numbers, figures, one page, and replicates.
"""
