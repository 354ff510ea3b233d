"""A load generator for models behind KServe's protocol: guide 003's client and more.

It needs nothing but Python; a page needs Jinja2, gRPC tritonclient.
"""
