"""Writing a folder of models for Triton: configuration, program and artefact, checked beforehand.

Plain Python; protobuf and tritonclient are needed to read the configuration back.
"""
