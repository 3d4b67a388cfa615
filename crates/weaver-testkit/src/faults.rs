//! Fault decorators. (Written next.)
