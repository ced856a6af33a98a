//! From requests to answers: the tower service.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::task::JoinHandle;
use tower::Service;

use crate::context::Context;
use crate::error::{ApiError, ApiResult};
use crate::identity::Identity;
use crate::negotiate::{Encoding, form};
use crate::query::Query;
use crate::render::{self, Answer};
use crate::request::{ResourcePath, Target, parse_path};
use crate::server::ApiServer;
use crate::state::Core;
use crate::{discovery, documents, verbs};

/// Most bytes of a request body.
pub(crate) const BODY_SIZE_MAX: usize = 3 * 1024 * 1024;
/// Longest time that a request other than a watch may take.
const TIME_MAX: Duration = Duration::from_secs(60);
/// Longest time that a request body may take to come in: a client that went silent must not hold a connection.
const BODY_TIME_MAX: Duration = Duration::from_secs(60);

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type AnswerFuture = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

impl<B> Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = AnswerFuture;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> AnswerFuture {
        let core = Arc::clone(self.core());
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            match AssertUnwindSafe(answer(core, request)).catch_unwind().await {
                Ok(answer) => Ok(answer),
                Err(_) => {
                    tracing::error!(path, "a handler panicked");
                    let text = "This request caused apiserver to panic. Look in the logs for details.";
                    Ok(render::respond(StatusCode::INTERNAL_SERVER_ERROR, text, "text/plain"))
                }
            }
        })
    }
}

/// The server for one caller in the same process: a tower service that puts the caller's identity on each request.
#[derive(Clone)]
pub struct InProcess {
    server: ApiServer,
    identity: Identity,
}

impl InProcess {
    pub(crate) fn new(server: ApiServer, identity: Identity) -> Self {
        Self { server, identity }
    }
}

impl<B> Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = AnswerFuture;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> AnswerFuture {
        request.extensions_mut().insert(self.identity.clone());
        self.server.call(request)
    }
}

async fn answer<B>(core: Arc<Core>, request: Request<B>) -> Answer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let audit = parts.headers.get("audit-id").cloned();
    let target = parse_path(parts.uri.path());
    let identity = parts.extensions.get::<Identity>();
    let mut answer = match authorize(identity, &target) {
        Err(error) => render::failure(&error, Encoding::Json),
        Ok(()) => {
            let query = parts.uri.query().unwrap_or_default();
            match route(core, &parts.method, target, query, parts.headers, body).await {
                Ok(answer) => answer,
                Err(error) => render::failure(&error, Encoding::Json),
            }
        }
    };
    let audit = audit.or_else(|| HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()).ok());
    if let Some(audit) = audit {
        answer.headers_mut().insert(HeaderName::from_static("audit-id"), audit);
    }
    answer
}

/// Who may do what, until roles exist: masters everything, everybody else only see that the server lives.
fn authorize(identity: Option<&Identity>, target: &Target) -> ApiResult<()> {
    if matches!(target, Target::Health | Target::Version) {
        return Ok(());
    }
    match identity {
        None => Err(ApiError::unauthorized()),
        Some(identity) if identity.is_master() => Ok(()),
        Some(identity) => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            format!("forbidden: User {:?} is in none of the groups that have access", identity.user),
        )),
    }
}

async fn route<B>(
    core: Arc<Core>,
    method: &Method,
    target: Target,
    query: &str,
    headers: HeaderMap,
    body: B,
) -> ApiResult<Answer>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    if let Target::Resource(path) = target {
        let query = Query::parse(query)?;
        let body = tokio::time::timeout(BODY_TIME_MAX, read(body)).await.unwrap_or_else(|_| {
            let limit = BODY_TIME_MAX.as_secs();
            let message = format!("the request body did not come to its end in {limit} s");
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message))
        })?;
        return resource(core, method, *path, query, headers, body).await;
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(if target == Target::Unknown {
            ApiError::no_such_resource()
        } else {
            ApiError::method_not_allowed()
        });
    }
    let registry = core.registry();
    match target {
        Target::Root => render::value(StatusCode::OK, &discovery::paths(&registry), Encoding::Json),
        Target::Version => render::value(StatusCode::OK, &discovery::version(), Encoding::Json),
        Target::Health => Ok(health(&core)),
        Target::CoreVersions => discovery::core_versions(&registry, &headers),
        Target::Groups => discovery::groups(&registry, &headers),
        Target::Group(group) => discovery::group(&registry, &headers, &group),
        Target::Resources { group, version } => discovery::resources(&registry, &headers, &group, &version),
        Target::OpenApi(path) => documents::answer(&registry, &headers, path.as_deref(), query),
        Target::OldOpenApi => documents::answer_old(&headers),
        Target::Resource(_) | Target::Unknown => Err(ApiError::no_such_resource()),
    }
}

fn health(core: &Core) -> Answer {
    if core.stopping.is_cancelled() {
        return render::respond(StatusCode::SERVICE_UNAVAILABLE, "shutting down", "text/plain; charset=utf-8");
    }
    render::respond(StatusCode::OK, "ok", "text/plain; charset=utf-8")
}

async fn read<B>(body: B) -> ApiResult<Bytes>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    match Limited::new(body, BODY_SIZE_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(BODY_SIZE_MAX)),
        Err(error) => Err(ApiError::bad_request(format!("the request body broke off: {error}"))),
    }
}

async fn resource(
    core: Arc<Core>,
    method: &Method,
    path: ResourcePath,
    query: Query,
    headers: HeaderMap,
    body: Bytes,
) -> ApiResult<Answer> {
    let registry = core.registry();
    let Some(endpoint) = registry.endpoint(&path.group, &path.version, &path.plural) else {
        return Err(ApiError::no_such_resource());
    };
    let form = form(&headers, true)?;
    let limit = query.timeout.unwrap_or(TIME_MAX).min(TIME_MAX);
    let context = Arc::new(Context::new(core, endpoint, path, query, headers, body, form));
    let work = {
        let (context, method) = (Arc::clone(&context), method.clone());
        async move { verbs::handle(&context, &method).await }
    };
    let handled = if *method == Method::GET {
        tokio::time::timeout(limit, work).await
    } else {
        // A write that has begun is finished, whether or not the client still waits for it.
        tokio::time::timeout(limit, finish(tokio::spawn(work))).await
    };
    let handled = handled.unwrap_or_else(|_| {
        Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", "the request did not end in time"))
    });
    let mut answer = match handled {
        Ok(answer) => answer,
        Err(error) => render::failure(&error, form.encoding),
    };
    render::warn(&mut answer, &context.warnings());
    Ok(answer)
}

async fn finish(work: JoinHandle<ApiResult<Answer>>) -> ApiResult<Answer> {
    match work.await {
        Ok(handled) => handled,
        Err(error) => match error.try_into_panic() {
            // Caught again where all panics are answered.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ApiError::unavailable("the server is shutting down").retry_after(1)),
        },
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn a_body_that_does_not_end_is_given_up() {
        let server = ApiServer::in_memory().await.expect("a directory for temporary files");
        tokio::time::pause();
        let pieces = futures::stream::once(async { Ok::<_, Infallible>(http_body::Frame::data(Bytes::from("{"))) });
        let body = http_body_util::StreamBody::new(pieces.chain(futures::stream::pending()));
        let request = Request::post("/api/v1/namespaces/default/configmaps").body(body).expect("a valid request");
        let answer = server.client(Identity::internal("test")).call(request).await.expect("infallible");
        assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    }
}
