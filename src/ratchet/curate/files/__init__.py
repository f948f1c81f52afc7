"""Datasets in files: written without loss, and read from other programs' files."""

from ratchet.curate.files.formats import FORMATS, FileFormat, format_of_file
from ratchet.curate.files.records import FileRecord, ReadFile, read_dataset_file, write_dataset_file

__all__ = [
    "FORMATS",
    "FileFormat",
    "FileRecord",
    "ReadFile",
    "format_of_file",
    "read_dataset_file",
    "write_dataset_file",
]
