"""Package layout; everything else about the project is in pyproject.toml."""

from setuptools import setup

setup(
    package_dir={
        "keras_bert": "keras_bert",
        "keras_bert.tasks": "tasks",
        "keras_bert.export": "export",
    },
    packages=[
        "keras_bert",
        "keras_bert.convert",
        "keras_bert.layers",
        "keras_bert.text",
        "keras_bert.tasks",
        "keras_bert.tasks.readers",
        "keras_bert.export",
    ],
    package_data={"keras_bert": ["py.typed"], "keras_bert.text": ["tables/*"]},
)
