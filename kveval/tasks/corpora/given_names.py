"""Given names from many languages; none is a common word or a part of one, and none tells where somebody lives."""

# ruff: noqa: SIM905 (lists of words read better as text)

from __future__ import annotations

GIVEN_NAMES = tuple(
    """
    Aisha Akira Beatrix Bogdan Bronwyn Camilla Cedric Daphne Dmitri Eleanor Emeka Farida Fergus Gareth Giulia Gunnar
    Hannelore Hiroshi Ingrid Isolde Jamila Joaquin Kaito Katarina Kwame Lakshmi Leopold Linnea Ludmila Magnus Malik
    Mireille Nadia Nikhil Nuria Ophelia Oskar Paloma Petros Quentin Rafael Ramona Ruslan Sabine Sanjay Sigrid Soraya
    Svetlana Tamsin Thaddeus Tobias Ursula Valeria Viktor Wilhelmina Xavier Yasmin Yuki Zelda Zoran
    """.split()
)
