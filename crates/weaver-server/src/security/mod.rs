//! Who may do what, and from where.
