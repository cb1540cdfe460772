//! runtimed against the in-process API service and a Runtime Server, scripted or real.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod artifacts;
#[cfg(test)]
mod bad_days;
#[cfg(test)]
mod bash;
#[cfg(test)]
mod bounds;
#[cfg(test)]
mod doors;
#[cfg(test)]
mod forge;
#[cfg(test)]
mod git;
#[cfg(test)]
mod remains;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod retry;
#[cfg(test)]
mod s3;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod task;
#[cfg(test)]
mod tool_cache;
#[cfg(test)]
mod workspace;
#[cfg(test)]
mod world;
