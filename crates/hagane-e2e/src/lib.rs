//! Nothing: the tests of the whole product are in `tests/it`.
