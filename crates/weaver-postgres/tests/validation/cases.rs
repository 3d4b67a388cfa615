//! Valid and invalid tasks to be enqueued.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The arguments of an enqueue by JSON or SQL.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) task_type: String,
    pub(crate) queue: String,
    pub(crate) namespace: String,
    pub(crate) priority: i32,
    pub(crate) run_at: Option<&'static str>,
    pub(crate) delay_ms: Option<i64>,
    pub(crate) payload: Value,
    pub(crate) options: Map<String, Value>,
}

fn of(values: Vec<Value>) -> BoxedStrategy<Value> {
    proptest::sample::select(values).boxed()
}

fn names() -> BoxedStrategy<Value> {
    let mut values = vec![json!("k"), json!("日本語 ok"), json!("x".repeat(255))];
    values.extend([
        json!(""),
        json!("x".repeat(256)),
        json!("é".repeat(128)),
        json!("a\nb"),
        json!("é\u{85}"),
    ]);
    values.extend([json!("\u{7f}"), json!(5), json!(true), json!(["k"]), json!({}), Value::Null]);
    prop_oneof![2 => of(values), 1 => "\\PC{1,80}".prop_map(Value::from)].boxed()
}

fn numbers(max: u64) -> BoxedStrategy<Value> {
    let mut values =
        vec![json!(-1), json!(0), json!(1), json!(7.0), json!(2.5), json!("5"), json!(1e3), json!(-0.0)];
    values.extend([
        json!(max),
        json!(max + 1),
        json!(u64::MAX),
        json!(1e30),
        json!([5]),
        json!(false),
        Value::Null,
    ]);
    prop_oneof![2 => of(values), 1 => (0..max).prop_map(Value::from)].boxed()
}

/// Of the field and of retry policies.
const SPAN_MAX_MS: u64 = 31_622_400_000;

fn instants() -> BoxedStrategy<Value> {
    let texts = [
        "2026-01-31T09:30:00Z",
        "2026-01-31t09:30:00z",
        "2031-01-31 09:30:00.123456789+02:00",
        "1970-01-01T00:59:59+01:00",
        "1969-12-31T23:30:00-01:00",
        "9999-12-30T22:00:00Z",
        "9999-12-30T22:00:00.000001Z",
        "1969-12-31T23:59:59Z",
        "2026-02-30T00:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T09:30:00",
        "2026-01-31T09:30:00.Z",
        "2026-01-31",
        "tomorrow",
        "infinity",
        "",
    ];
    let mut values: Vec<Value> = texts.into_iter().map(Value::from).collect();
    values.extend([json!(1_700_000_000), json!(true), Value::Null]);
    of(values)
}

fn labels() -> BoxedStrategy<Value> {
    let many = |count: usize| Value::Object((0..count).map(|at| (format!("l{at}"), json!("v"))).collect());
    of(vec![
        json!({}),
        json!({"a": "b", "é": "ü"}),
        many(64),
        many(65),
        json!({"a": 5}),
        json!({"a": null}),
        json!({"": "x"}),
        json!({"a": ""}),
        json!({"a\n": "x"}),
        json!({"a": "x".repeat(256)}),
        json!([]),
        json!("a"),
        Value::Null,
    ])
}

fn retries() -> BoxedStrategy<Value> {
    let fixed = numbers(SPAN_MAX_MS).prop_map(|delay| json!({"kind": "fixed", "delay_ms": delay}));
    let jitter = of(vec![json!(true), json!(false), json!("yes"), Value::Null]);
    let exponential = (numbers(SPAN_MAX_MS), numbers(SPAN_MAX_MS), jitter).prop_map(|(base, cap, jitter)| {
        json!({"kind": "exponential", "base_ms": base, "cap_ms": cap, "jitter": jitter})
    });
    let odd = of(vec![
        json!({"kind": "none"}),
        json!({"kind": "none", "delay_ms": 1}),
        json!({"kind": "linear"}),
        json!({"kind": 5}),
        json!({"delay_ms": 5}),
        json!({"kind": "fixed"}),
        json!({"kind": "fixed", "delay_ms": 5, "jitter": true}),
        json!({"kind": "exponential", "base_ms": 5, "cap_ms": 50, "jitter": true}),
        json!({"kind": "exponential", "base_ms": 5, "cap_ms": 50}),
        json!("none"),
        json!([]),
        Value::Null,
    ]);
    prop_oneof![fixed, exponential, odd].boxed()
}

fn traces() -> BoxedStrategy<Value> {
    of(vec![
        json!({"traceparent": "00-ab-cd-01"}),
        json!({"traceparent": ""}),
        json!({"traceparent": "00-ab", "tracestate": "vendor=1"}),
        json!({"traceparent": "00-ab", "tracestate": null}),
        json!({"traceparent": "x".repeat(64), "tracestate": "y".repeat(448)}),
        json!({"traceparent": "x".repeat(65)}),
        json!({"traceparent": "00-ab", "tracestate": "y".repeat(449)}),
        json!({"traceparent": "é"}),
        json!({"traceparent": "a\n"}),
        json!({"traceparent": null}),
        json!({"traceparent": 5}),
        json!({"tracestate": "x"}),
        json!({"traceparent": "00-ab", "baggage": "x"}),
        json!("00-ab"),
        Value::Null,
    ])
}

fn options() -> BoxedStrategy<Map<String, Value>> {
    let option = prop_oneof![
        (
            proptest::sample::select(vec![
                "content_type",
                "serial_key",
                "idempotency_key",
                "task_group_id",
                "session_id"
            ]),
            names()
        ),
        (proptest::sample::select(vec!["max_attempts", "max_losses"]), numbers(10_000)),
        (Just("timeout_ms"), numbers(SPAN_MAX_MS)),
        (Just("expires_at"), instants()),
        (Just("labels"), labels()),
        (Just("retry"), retries()),
        (Just("trace"), traces()),
        (
            proptest::sample::select(vec!["max_attemps", "timeout", "retry_of", "scheduled_for"]),
            of(vec![json!(5), json!("k"), Value::Null])
        ),
    ];
    proptest::collection::vec(option, 0..4)
        .prop_map(|options| options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        .boxed()
}

pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let text = || {
        let odd = ["", "a\tb", "weaver.check", "weaver.", "weaver"].map(str::to_owned);
        let mut odd = odd.to_vec();
        odd.push("x".repeat(256));
        prop_oneof![12 => Just("t".to_owned()), 1 => proptest::sample::select(odd)]
    };
    let queue =
        prop_oneof![12 => Just("default".to_owned()), 1 => Just(String::new()), 1 => Just("é".repeat(128))];
    let priority = prop_oneof![10 => 0..10, 1 => Just(-1), 1 => Just(10), 1 => Just(300)];
    let start = prop_oneof![
        8 => Just((None, None)),
        1 => proptest::sample::select(vec!["2040-01-31T09:30:00Z", "1999-01-31T09:30:00Z", "9999-12-31T00:00:00Z", "1960-01-01T00:00:00Z"])
            .prop_map(|at| (Some(at), None)),
        1 => proptest::sample::select(vec![-1_i64, 0, 1, 60_000, SPAN_MAX_MS as i64, SPAN_MAX_MS as i64 + 1, i64::MAX / 1_000_000])
            .prop_map(|delay| (None, Some(delay))),
        1 => Just((Some("2040-01-31T09:30:00Z"), Some(5))),
    ];
    let payload = of(vec![Value::Null, json!(1), json!("té\"xt"), json!(true), json!({"a": [1, null]})]);
    (text(), queue, text(), priority, start, payload, options()).prop_map(
        |(task_type, queue, namespace, priority, (run_at, delay_ms), payload, options)| Case {
            task_type,
            queue,
            namespace,
            priority,
            run_at,
            delay_ms,
            payload,
            options,
        },
    )
}
