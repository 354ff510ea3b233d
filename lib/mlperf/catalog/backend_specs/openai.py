"""Servers with the API of OpenAI, wherever they are."""

from ..backend import BackendSpec, Option

SPECS = (
    BackendSpec(
        name="openai",
        title="a server with the API of OpenAI",
        module="open_ai:OpenAi",
        model_tag="_gguf",
        generates=True,
        options={
            "url": Option("", "http://HOST:PORT/v1 of the server", key="CM_MLPERF_URL"),
            "api_key_env": Option(
                "", "the variable that holds the key (OPENAI_API_KEY if it is set)"
            ),
            "api_key_file": Option("", "a file that holds the key, instead of a variable"),
            "timeout": Option(600.0, "the longest that an answer may take, in seconds"),
            "model": Option("", "its name there, where the server has several models"),
        },
    ),
)
