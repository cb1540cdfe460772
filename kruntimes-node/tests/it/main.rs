//! runtimed against the in-process API service and a Runtime Server, scripted or real.

mod bad_days;
mod bash;
mod restart;
mod retry;
mod stop;
mod task;
mod world;
