//! The scheduler's decisions and its book, item by item.

#[cfg(test)]
mod affinity;
#[cfg(test)]
mod availability;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod book;
#[cfg(test)]
mod config;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod cycle;
#[cfg(test)]
mod events;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod funnel;
#[cfg(test)]
mod gang;
#[cfg(test)]
mod index;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod least_loaded;
#[cfg(test)]
mod points;
#[cfg(test)]
mod preemption;
#[cfg(test)]
mod profile;
#[cfg(test)]
mod snapshot;
#[cfg(test)]
mod surface;
#[cfg(test)]
mod waiting;
#[cfg(test)]
mod workspace;
