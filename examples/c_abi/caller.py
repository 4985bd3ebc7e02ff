"""Asks kubegc: python3 caller.py LIBRARY [PATH] < question.json"""
import ctypes
import json
import sys


def answer(library, question, path=None):
    text, length = json.dumps(question).encode(), ctypes.c_size_t()
    library.kubegc_answer.restype = ctypes.POINTER(ctypes.c_uint8)
    found = library.kubegc_answer(text, ctypes.c_size_t(len(text)), path and path.encode(), ctypes.byref(length))
    try:
        return json.loads(ctypes.string_at(found, length.value))
    finally:
        library.kubegc_free(found, length)


if __name__ == "__main__":
    found = answer(ctypes.CDLL(sys.argv[1]), json.load(sys.stdin), *sys.argv[2:])
    json.dump(found, sys.stdout)
