//! What every component tells of itself: its build, and whether it leads.

use std::future::Future;

use super::registry::{Gauge, Registry};

/// Tells version and commit of the running component.
pub fn build_info(registry: &Registry, component: &str, version: &str, commit: &str) {
    let help = "Always 1; the labels tell what is running.";
    let labels = &["component", "version", "commit"];
    let info = registry.gauge("kruntimes_build_info", help, labels);
    info.set(&[component, version, commit], 1.0);
}

/// Tells whether a component leads, which is 0 until it works.
#[derive(Clone, Debug)]
pub struct Leadership {
    gauge: Gauge,
    component: String,
}

/// Takes the 1 back however the work ends.
struct Term<'a>(&'a Leadership);

impl Drop for Term<'_> {
    fn drop(&mut self) {
        self.0.tell(0.0);
    }
}

impl Leadership {
    /// Announces a component that does not lead yet.
    pub fn new(registry: &Registry, component: &str) -> Self {
        let help = "1 while this process does the work of the component, 0 while it stands by.";
        let leadership = Self {
            gauge: registry.gauge("kruntimes_leader", help, &["component"]),
            component: component.to_owned(),
        };
        leadership.tell(0.0);
        leadership
    }

    /// Does the work, which is told for as long as it lasts.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        self.tell(1.0);
        let _term = Term(self);
        work.await
    }

    fn tell(&self, value: f64) {
        self.gauge.set(&[&self.component], value);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn leading_is_told_while_the_work_lasts_however_it_ends() {
        let registry = Registry::new();
        let leadership = Leadership::new(&registry, "scheduler");
        let told = || {
            let text = registry.text();
            let line = text.lines().last().unwrap_or_default();
            line.to_owned()
        };
        assert_eq!(told(), "kruntimes_leader{component=\"scheduler\"} 0");
        let mut work = Box::pin(leadership.during(std::future::pending::<()>()));
        assert_eq!(work.as_mut().now_or_never(), None);
        assert_eq!(told(), "kruntimes_leader{component=\"scheduler\"} 1");
        drop(work);
        assert_eq!(told(), "kruntimes_leader{component=\"scheduler\"} 0");
    }
}
