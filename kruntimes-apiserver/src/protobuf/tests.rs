//! Objects in protocol buffers, compared with what the decoder makes of them.

use serde_json::json;

use super::*;

/// Writes a field that has a length.
fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("the messages of these tests are short");
    assert!(length < 128, "one byte of length is enough");
    [&[number << 3 | 2, length], content].concat()
}

/// Writes a field that is a small number.
fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let names = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), bytes(1, &names), bytes(2, raw)].concat()
}

#[test]
fn a_config_map_is_what_it_would_be_in_json() {
    let meta = [bytes(1, b"m"), bytes(2, b""), bytes(8, b"")].concat();
    let entry = [bytes(1, b"key"), bytes(2, b"value")].concat();
    let binary = [bytes(1, b"raw"), bytes(2, &[0, 255])].concat();
    let map = [
        bytes(1, &meta),
        bytes(2, &entry),
        bytes(3, &binary),
        number(4, 0),
    ]
    .concat();
    let read = read(&envelope("v1", "ConfigMap", &map)).unwrap().unwrap();
    assert_eq!(
        read,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" },
            "data": { "key": "value" }, "binaryData": { "raw": "AP8=" }, "immutable": false,
        })
    );
}

#[test]
fn parts_without_a_name_belong_to_the_whole() {
    let secret = bytes(6, &bytes(1, b"s"));
    let volume = [bytes(1, b"v"), bytes(2, &secret)].concat();
    let quantity = [bytes(1, b"cpu"), bytes(2, &bytes(1, b"1500m"))].concat();
    let resources = bytes(8, &bytes(1, &quantity));
    let probe = bytes(
        10,
        &bytes(
            1,
            &bytes(2, &bytes(2, &[number(1, 0), number(2, 80)].concat())),
        ),
    );
    let container = [bytes(1, b"c"), resources, probe].concat();
    let spec = [bytes(1, &volume), bytes(2, &container), number(4, 0)].concat();
    let read = read(&envelope("v1", "Pod", &bytes(2, &spec)))
        .unwrap()
        .unwrap();
    assert_eq!(
        read["spec"],
        json!({
            "volumes": [{ "name": "v", "secret": { "secretName": "s" } }],
            "containers": [{
                "name": "c", "resources": { "limits": { "cpu": "1500m" } },
                "livenessProbe": { "httpGet": { "port": 80 } },
            }],
            "terminationGracePeriodSeconds": 0,
        })
    );
}

#[test]
fn moments_are_written_with_their_precision() {
    let moment = [number(1, 60), vec![2 << 3, 0xe8, 0x07]].concat();
    let spec = [bytes(1, b"me"), bytes(3, &moment)].concat();
    let read = read(&envelope(
        "coordination.k8s.io/v1",
        "Lease",
        &bytes(2, &spec),
    ))
    .unwrap();
    let spec = &read.unwrap()["spec"];
    assert_eq!(
        *spec,
        json!({ "holderIdentity": "me", "acquireTime": "1970-01-01T00:01:00.000001Z" })
    );
}

#[test]
fn other_kinds_are_left_alone() {
    assert_eq!(
        read(&envelope("suite.example.org/v1", "Widget", &[])),
        Ok(None)
    );
}

#[test]
fn what_is_malformed_is_refused() {
    for body in [
        b"".to_vec(),
        b"{}".to_vec(),
        [MAGIC, &[0x0a, 5, 1]].concat(),
        [MAGIC, &[0xff; 12]].concat(),
        [MAGIC, &[0x0b]].concat(),
        envelope("v1", "ConfigMap", &[0x0a, 0x7f]),
        envelope("v1", "ConfigMap", &number(1, 1)),
        envelope("v1", "ConfigMap", &bytes(1, &bytes(1, &[0xff, 0xfe]))),
        envelope(
            "apps/v1",
            "ControllerRevision",
            &bytes(2, &bytes(1, b"no json")),
        ),
    ] {
        assert!(read(&body).is_err(), "{body:?}");
    }
}

#[test]
fn prefixes_of_a_message_never_panic() {
    let meta = [
        bytes(1, b"m"),
        bytes(11, &[bytes(1, b"a"), bytes(2, b"b")].concat()),
    ]
    .concat();
    let whole = envelope("v1", "ConfigMap", &bytes(1, &meta));
    assert!(read(&whole).unwrap().is_some());
    for end in 0..whole.len() {
        // Cut where a field ends, the rest is a message of its own.
        drop(read(&whole[..end]));
    }
}
