//! Tests of kruntimes-k8s against the in-process API service, and in `real` against a real one.

#[cfg(test)]
mod cache;
#[cfg(test)]
mod definitions;
#[cfg(test)]
mod lease;
#[cfg(test)]
mod mortal;
#[cfg(test)]
mod pool;
#[cfg(test)]
mod real;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod runtime;
#[cfg(test)]
mod scheduler;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod workflow;
