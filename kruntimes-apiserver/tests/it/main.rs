//! Behaviour of the API as its clients see it.
//!
//! The functions in `suite` take a client and know nothing of the server behind it; `real` runs them against a
//! real control plane, `embedded` against the in-process server, whose handle the other modules use.

#[cfg(test)]
mod clients;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod embedded;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod kubectl;
#[cfg(test)]
mod listener;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod real;
#[cfg(test)]
mod suite;
