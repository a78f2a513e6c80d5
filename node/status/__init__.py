"""Status of a federation, for people: what commands, pages, Python and ``report.json`` show.

rounds         all figures of a round
report         ``report.json``
federation     all that ``fedgrove status`` shows
standing       where the latest round stands
setbacks       rounds that left no model, and who was missing
participation  why an account's last round counted, or did not
clusters       what a round left of the clusters
budget, costs  what an account can pay, and what was paid
estimate       what a federation will cost
subject        what a federation learns
"""
