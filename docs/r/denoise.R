# Estimate confidential counts and rates from a release, in base R.
#
#   Rscript denoise.R cases.ppd results [draws]
#
# The command ppdinf must be on the path: pip install "./ppdinf[sign]".

arguments <- commandArgs(trailingOnly = TRUE)
release <- arguments[1]
results <- arguments[2]
draws <- if (length(arguments) > 2) arguments[3] else "1000"
counts_file <- file.path(results, "counts.csv")
report <- file.path(results, "report")
dir.create(results, showWarnings = FALSE)

# Run a command. Exit code 1 with a result: the posterior failed its checks.
ppdinf <- function(..., creates = character()) {
  unlink(creates)
  status <- system2("ppdinf", shQuote(c(...)))
  if (status != 0 && !isTRUE(file.exists(creates))) stop("ppdinf ", ..1, " failed with exit code ", status)
  if (status != 0) warning("the posterior of ppdinf ", ..1, " failed its checks: its last lines state what to do")
}

# Read a table. Labels are text: as numbers, "01", "1" and "1.0" would be one label, and "NA" a missing value.
read_table <- function(file, numbers) {
  table <- read.csv(file, colClasses = "character", na.strings = character(), check.names = FALSE)
  numbers <- intersect(numbers, names(table))
  table[numbers] <- lapply(table[numbers], as.numeric)
  table
}

# A release is a zip file: noisy counts by label in table.csv, public sums in public.csv.
noisy <- read_table(unz(release, "table.csv"), c("released", "population"))
public <- read_table(unz(release, "public.csv"), "value")
ppdinf("check", release)

# 1. Counts with intervals, without a model
ppdinf("denoise", release, "--output", counts_file, "--draws", draws, creates = counts_file)
results_of_denoise <- c("estimate", "sd", "lower", "upper", "margin_of_error")
estimates <- read_table(counts_file, results_of_denoise)
labels <- setdiff(names(estimates), results_of_denoise)
counts <- merge(noisy[c(labels, "released")], estimates, by = labels, sort = FALSE)
stopifnot(nrow(counts) == nrow(noisy))
print(counts)

# 2. Rates by the ready model, with a report
if ("population" %in% names(noisy)) {
  rates_file <- file.path(report, "posterior.csv")
  ppdinf("infer", release, "--exposure", "population", "--output", report, "--draws", draws, creates = rates_file)
  rates <- read_table(rates_file, character())
  numbers <- setdiff(names(rates), labels)
  rates[numbers] <- lapply(rates[numbers], as.numeric)
  print(rates)
}

# 3. A figure: released counts, and estimates with intervals
png(file.path(results, "counts.png"), width = 900, height = 500)
par(mar = c(8, 4, 3, 1))
cell <- seq_len(nrow(counts))
plot(cell, counts$estimate, ylim = range(counts$lower, counts$upper, counts$released), pch = 19, xaxt = "n",
     xlab = "", ylab = "persons", main = "Released counts (crosses), estimates and 90 % intervals")
axis(1, cell, do.call(paste, counts[labels]), las = 2)
segments(cell, counts$lower, cell, counts$upper)
points(cell, counts$released, pch = 4)
invisible(dev.off())
