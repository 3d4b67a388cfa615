//! Every endpoint over real connections, against the real server.

mod audit;
mod bad_input;
mod enqueue;
mod events;
mod limits;
mod lists;
mod logs;
mod metrics;
mod openapi;
mod protected;
mod queues;
mod restart;
mod runners;
mod schedules;
mod server;
mod task;
mod tokens;
mod waits;
mod work;
