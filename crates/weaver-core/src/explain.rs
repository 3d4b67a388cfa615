//! Why a task is not running. (Written next.)
