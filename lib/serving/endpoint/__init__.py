"""A load generator for language models behind an OpenAI-compatible URL.

It needs nothing but Python; a page needs Jinja2.
"""
