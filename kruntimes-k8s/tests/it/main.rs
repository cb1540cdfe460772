//! Tests of kruntimes-k8s against the in-process API service.

#[cfg(test)]
mod rules;
#[cfg(test)]
mod runtime;
#[cfg(test)]
mod scheduler;
