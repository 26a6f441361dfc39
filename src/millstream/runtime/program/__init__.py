"""A program on its way to the slots: its main module, and what it needs beside itself."""
