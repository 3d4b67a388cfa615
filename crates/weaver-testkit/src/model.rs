//! Reference model. (Written next.)
