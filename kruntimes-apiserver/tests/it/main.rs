//! Behaviour of the API as its clients see it.
//!
//! The functions in `suite` take a client and know nothing of the server behind it, so they hold for a real
//! control plane as well; the other modules use what only the in-process server offers.

#[cfg(test)]
mod embedded;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod suite;
