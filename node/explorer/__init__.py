"""The explorer: web pages that show a training history, and how far it has been checked. It reads, and holds no key.

- ``sources``: where a history is: a run's directory, a CAR file, a live ledger with its store
- ``index``: the records in one SQLite file, sorted for pages, and compared with the chain before they are used again
- ``placing``, ``sums``: where each record goes in the index, and the figures of rounds that follow
- ``survey``: what the store holds behind the digests: CIDs, sizes, and the small texts that pages show
- ``watch``: reads, surveys and audits in the background; reports what was found so far
- ``inert``: foreign text and blobs made safe to look at
- ``drawings``, ``tree_drawing``, ``heatmap``, ``score_drawings``: SVG
- ``options``: the price of the chain's currency and the public block explorer that pages use
- ``views``: what each page says, as plain values out of the index; a module a kind of page
- ``pages``: a path to a page, by templates: the same for the server and for an export
- ``comparing``: the page that compares runs, and its tables
- ``api``: the same as JSON
- ``cache``: where an index lies between two runs
- ``server``: the pages over HTTP on this machine, with live updates
- ``export``: the pages as files to publish
"""
