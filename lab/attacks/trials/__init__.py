"""The trials: one module an attack, with NAME, TITLE, SOURCE, ``run(scene)`` and ``text(results)``.

gradient, model, gan    an image attack each, by kind of upload
protocol                attacks on the masks of a round
"""
