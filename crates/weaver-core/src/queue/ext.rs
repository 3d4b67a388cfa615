//! Sugar.
/// x
pub trait QueueExt {}
/// y
pub struct TaskStatus;
