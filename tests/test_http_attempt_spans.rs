//! Spans of attempts, as OpenTelemetry's conventions for HTTP clients want
//! them: one per send, and those after the first are numbered.

#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use steadfast::http::{AttemptSpanLayer, HttpClassifier};
use steadfast::{Backoff, Policy, ServiceBuilderExt};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

type Fields = BTreeMap<String, String>;

/// Keeps the fields of all spans, by the order in which they were made.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Fields>>>);

impl Spans {
    fn write(&self, id: &span::Id, record: impl FnOnce(&mut Writer<'_>)) {
        let mut spans = self.0.lock().unwrap();
        let index = usize::try_from(id.into_u64()).unwrap() - 1;
        record(&mut Writer(&mut spans[index]));
    }

    fn take(&self) -> Vec<Fields> {
        self.0.lock().unwrap().clone()
    }
}

struct Writer<'a>(&'a mut Fields);

impl Visit for Writer<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        self.0.insert(field.name().to_owned(), text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && *metadata.level() <= Level::INFO
    }
    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let id = {
            let mut spans = self.0.lock().unwrap();
            spans.push(Fields::new());
            span::Id::from_u64(spans.len() as u64)
        };
        self.write(&id, |writer| attributes.record(writer));
        id
    }
    fn record(&self, id: &span::Id, values: &span::Record<'_>) {
        self.write(id, |writer| values.record(writer));
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Sends one request through three attempts at most; each answers with the next
/// status, and 0 is an error.
async fn spans_of(request: Request<()>, statuses: &'static [u16]) -> Vec<Fields> {
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let policy = Policy::builder("inventory")
        .backoff(Backoff::none())
        .classify(HttpClassifier::new())
        .build()
        .unwrap();
    let next = Arc::new(Mutex::new(statuses.iter()));
    let client = service_fn(move |_: Request<()>| {
        let status = next.lock().unwrap().next().copied().unwrap();
        async move {
            match StatusCode::from_u16(status) {
                Ok(status) => {
                    let mut answer = Response::new(());
                    *answer.status_mut() = status;
                    Ok(answer)
                }
                Err(_) => Err(BoxError::from("reset")),
            }
        }
    });
    let client = ServiceBuilder::new()
        .resilience(policy)
        .layer(AttemptSpanLayer::new())
        .service(client);
    let _ = client.oneshot(request).await;
    spans.take()
}

fn get(uri: &str) -> Request<()> {
    Request::get(uri).body(()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_send_is_a_span_and_the_resends_are_numbered() {
    let spans = spans_of(
        get("https://inventory.example/items?key=secret"),
        &[503, 0, 200],
    )
    .await;
    let field = |name: &str| -> Vec<_> {
        let values = spans.iter().map(|span| span.get(name).map(String::as_str));
        values.collect()
    };
    let resends = [None, Some("1"), Some("2")];
    assert_eq!(field("http.request.resend_count"), resends);
    let statuses = [Some("503"), None, Some("200")];
    assert_eq!(field("http.response.status_code"), statuses);
    assert_eq!(field("error.type"), [Some("503"), Some("_OTHER"), None]);
    assert_eq!(field("http.request.method"), [Some("GET"); 3]);
    assert_eq!(field("otel.kind"), [Some("client"); 3]);
    assert_eq!(field("server.address"), [Some("inventory.example"); 3]);
    assert_eq!(field("server.port"), [Some("443"); 3]);
    let text = format!("{spans:?}");
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn names_without_bound_are_none() {
    let mut request = get("/items");
    *request.method_mut() = Method::from_bytes(b"TEAPOT").unwrap();
    let spans = spans_of(request, &[200]).await;
    assert_eq!(spans.len(), 1);
    assert_eq!(spans[0]["http.request.method"], "_OTHER");
    assert_eq!(spans[0]["otel.name"], "HTTP");
    assert!(!spans[0].contains_key("server.address"));
}

#[tokio::test(start_paused = true)]
async fn outside_of_any_attempt_there_is_a_span_without_a_number() {
    let spans = Spans::default();
    let _guard = tracing::subscriber::set_default(spans.clone());
    let mut client = ServiceBuilder::new()
        .layer(AttemptSpanLayer::new())
        .service(service_fn(|_: Request<()>| async {
            Ok::<_, BoxError>(Response::new(()))
        }));
    assert!(client.call(get("http://localhost:8080/")).await.is_ok());
    let spans = spans.take();
    assert_eq!(spans[0]["server.port"], "8080");
    assert!(!spans[0].contains_key("http.request.resend_count"));
}
