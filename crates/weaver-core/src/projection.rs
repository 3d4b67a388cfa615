//! The seeds' words for states. (Written next.)
