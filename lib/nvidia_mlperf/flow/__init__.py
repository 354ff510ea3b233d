"""NVIDIA's published configurations as data: fields, systems, and values for each of them.

``registry`` loads and checks all of it, and says of every value where it comes from; ``systems``
recognises a machine; ``words`` turns the words of NVIDIA's guides into our names. Nothing of the
engine is imported.
"""
