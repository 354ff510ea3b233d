"""One way to draw a result: layout, style, tables and charts of every page, as one HTML file.

It knows nothing of benchmarks. A page is a template of its owner's that extends ``layout.html``
and imports the macros of ``components.html``.
"""
