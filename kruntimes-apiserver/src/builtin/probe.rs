//! Probes and lifecycle hooks of containers: their defaults.

use serde_json::Value;

use super::set_default;

/// Fills in the probes and hooks of a container.
pub(super) fn default(container: &mut Value) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(name) else {
            continue;
        };
        for (field, default) in [
            ("timeoutSeconds", 1),
            ("periodSeconds", 10),
            ("successThreshold", 1),
            ("failureThreshold", 3),
        ] {
            if probe[field].as_i64().unwrap_or(0) == 0 {
                probe[field] = Value::from(default);
            }
        }
        default_http(probe);
        if let Some(grpc) = probe.get_mut("grpc") {
            set_default(grpc, "service", "");
        }
    }
    let Some(hooks) = container.get_mut("lifecycle") else {
        return;
    };
    for name in ["postStart", "preStop"] {
        if let Some(hook) = hooks.get_mut(name) {
            default_http(hook);
        }
    }
}

fn default_http(action: &mut Value) {
    if let Some(http) = action.get_mut("httpGet") {
        set_default(http, "path", "/");
        set_default(http, "scheme", "HTTP");
    }
}
