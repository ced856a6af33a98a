//! Behaviour towards a daemon that does not keep to the protocol.

use tokio::net::UnixListener;

use super::*;
use crate::rpc::code;

/// A connection without opening ceremony, and the other end of its socket.
fn pair() -> (Connection, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    (Connection::start(ours, mpsc::channel(8).0), theirs)
}

fn answer(to: &Frame, kind: Kind, status: Status, payload: Vec<u8>) -> Bytes {
    Frame { kind, status, payload: payload.into(), ..to.clone() }.encode()
}

/// Reads one frame and answers it with what `reply` makes of it.
async fn serve(theirs: &mut UnixStream, reply: impl FnOnce(&Frame) -> Bytes) -> Frame {
    let frame = read_frame(theirs).await.expect("a frame from the client");
    theirs.write_all(&reply(&frame)).await.expect("the client reads");
    frame
}

#[tokio::test]
async fn answers_may_come_in_any_order() {
    let (connection, mut theirs) = pair();
    let server = async {
        let first = read_frame(&mut theirs).await.expect("the first call");
        let second = read_frame(&mut theirs).await.expect("the second call");
        for frame in [&second, &first] {
            let payload = Encoder::new().i32(frame.procedure).finish();
            theirs.write_all(&answer(frame, Kind::Reply, Status::Ok, payload)).await.expect("the client reads");
        }
    };
    let (one, two, ()) = tokio::join!(connection.call(1001, Vec::new()), connection.call(1002, Vec::new()), server);
    let number =
        |reply: Result<Bytes, RpcError>| connection.decode(&reply.expect("an answer"), Decoder::i32).expect("a number");
    assert_eq!((number(one), number(two)), (1001, 1002));
}

#[tokio::test]
async fn an_error_of_libvirt_keeps_its_number_and_text() {
    let (connection, mut theirs) = pair();
    let payload = Encoder::new().i32(code::NO_DOMAIN).i32(10).optional_string(Some("no domain\n")).i32(2).finish();
    let server = serve(&mut theirs, |frame| answer(frame, Kind::Reply, Status::Error, payload));
    let (reply, _) = tokio::join!(connection.call(24, Vec::new()), server);
    let error = reply.expect_err("an error");
    assert!(error.is(code::NO_DOMAIN) && !error.is_connection());
    assert_eq!(error.to_string(), "libvirtd says: no domain");
    assert!(!connection.is_closed(), "an error is a good answer");
}

#[tokio::test]
async fn nonsense_ends_the_connection_and_every_wait() {
    let nonsense: [&[u8]; 3] = [&[0, 0, 0, 3], &[0xff; 64], b"HTTP/1.1 400 Bad Request\r\n\r\n"];
    for bytes in nonsense {
        let (connection, mut theirs) = pair();
        let (reply, ()) = tokio::join!(connection.call(1, Vec::new()), async {
            serve(&mut theirs, |_| Bytes::copy_from_slice(bytes)).await;
            // The rest of the prefix, where the nonsense was shorter.
            let _ = theirs.write_all(&[0; 64]).await;
        });
        assert!(matches!(reply, Err(RpcError::Disconnected(_))), "{reply:?}");
        assert!(connection.is_closed());
        let later = connection.call(1, Vec::new()).await;
        assert!(matches!(later, Err(RpcError::Disconnected(_))), "calls fail at once afterwards");
    }
}

#[tokio::test]
async fn an_answer_of_the_wrong_shape_ends_the_connection() {
    let (connection, mut theirs) = pair();
    let server = serve(&mut theirs, |frame| answer(frame, Kind::Reply, Status::Ok, vec![0, 0, 0, 99, 1]));
    let (found, _) = tokio::join!(connection.domain_by_name("a"), server);
    assert!(matches!(found, Err(RpcError::Malformed(_))), "{found:?}");
    assert!(connection.is_closed());
}

#[tokio::test]
async fn a_daemon_that_goes_away_is_noticed() {
    let (connection, theirs) = pair();
    drop(theirs);
    let error = connection.closed().await;
    assert!(error.is_connection());
    assert!(connection.call(1, Vec::new()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_does_not_answer_costs_one_call_its_limit() {
    let (connection, mut theirs) = pair();
    let reply = connection.call(7, Vec::new()).await;
    assert!(matches!(reply, Err(RpcError::Timeout { procedure: 7, .. })), "{reply:?}");
    // The late answer disturbs nobody.
    let late = read_frame(&mut theirs).await.expect("the call");
    theirs.write_all(&answer(&late, Kind::Reply, Status::Ok, Vec::new())).await.expect("the client reads");
    let server = serve(&mut theirs, |frame| answer(frame, Kind::Reply, Status::Ok, Encoder::new().i32(1).finish()));
    let (reply, _) = tokio::join!(connection.call(8, Vec::new()), server);
    assert!(reply.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_silent_daemon_counts_as_dead_after_a_while() {
    let (mut connection, mut theirs) = pair();
    connection.keep_alive();
    let pings = async {
        let mut count = 0;
        while let Ok(frame) = read_frame(&mut theirs).await {
            assert_eq!((frame.program, frame.procedure), (PROGRAM_KEEPALIVE, procedure::KEEPALIVE_PING));
            count += 1;
        }
        count
    };
    let (error, count) = tokio::join!(connection.closed(), pings);
    assert!(error.to_string().contains("no sign of life"), "{error}");
    assert_eq!(count, KEEPALIVE_MISSES);
}

#[tokio::test]
async fn pings_are_answered() {
    let (_connection, mut theirs) = pair();
    theirs.write_all(&keepalive(procedure::KEEPALIVE_PING)).await.expect("the client reads");
    let pong = read_frame(&mut theirs).await.expect("an answer");
    assert_eq!((pong.program, pong.procedure), (PROGRAM_KEEPALIVE, procedure::KEEPALIVE_PONG));
}

#[tokio::test]
async fn a_refused_upload_says_why() {
    let (connection, mut theirs) = pair();
    let volume = crate::rpc::VolumeRef { pool: "p".into(), name: "v".into(), key: "k".into() };
    let server = async {
        let call = serve(&mut theirs, |frame| answer(frame, Kind::Reply, Status::Ok, Vec::new())).await;
        let payload = Encoder::new().i32(38).i32(18).optional_string(Some("No space left on device")).finish();
        let refusal = answer(&call, Kind::Stream, Status::Error, payload);
        theirs.write_all(&refusal).await.expect("the client reads");
        // Data on its way is read and dropped, as libvirtd does.
        while read_frame(&mut theirs).await.is_ok() {}
    };
    let data = Bytes::from(vec![1; 8 << 20]);
    let upload = async {
        let result = connection.write_volume(&volume, 0, data).await;
        drop(connection);
        result
    };
    let (result, ()) = tokio::join!(upload, server);
    let error = result.expect_err("the disk is full");
    assert_eq!(error.to_string(), "libvirtd says: No space left on device");
}

#[tokio::test]
async fn data_that_overtakes_the_reply_is_kept() {
    let (connection, mut theirs) = pair();
    let volume = crate::rpc::VolumeRef { pool: "p".into(), name: "v".into(), key: "k".into() };
    let server = async {
        let call = serve(&mut theirs, |frame| answer(frame, Kind::Stream, Status::Continue, vec![1, 2])).await;
        let rest = [
            answer(&call, Kind::Reply, Status::Ok, Vec::new()),
            answer(&call, Kind::Stream, Status::Continue, vec![3]),
            answer(&call, Kind::Stream, Status::Continue, Vec::new()),
        ];
        theirs.write_all(&rest.concat()).await.expect("the client reads");
        serve(&mut theirs, |frame| answer(frame, Kind::Stream, Status::Ok, Vec::new())).await
    };
    let (data, end) = tokio::join!(connection.read_volume(&volume, 0, 16), server);
    assert_eq!(data.expect("the data"), [1, 2, 3]);
    assert_eq!(end.status, Status::Ok);
}

#[tokio::test]
async fn an_event_names_the_domain() {
    let (ours, mut theirs) = UnixStream::pair().expect("a socket pair");
    let (sender, mut events) = mpsc::channel(8);
    let _connection = Connection::start(ours, sender);
    let domain = DomainRef { name: "m1".into(), uuid: [7; 16], id: 3 };
    let payload = domain.encode(Encoder::new().i32(1)).i32(2).i32(0).finish();
    let event = Frame {
        program: PROGRAM_REMOTE,
        procedure: procedure::DOMAIN_EVENT_CALLBACK_LIFECYCLE,
        kind: Kind::Message,
        serial: 0,
        status: Status::Ok,
        payload: payload.into(),
    };
    theirs.write_all(&event.encode()).await.expect("the client reads");
    assert_eq!(events.recv().await, Some(LifecycleEvent { domain }));
}

#[tokio::test]
async fn a_daemon_that_wants_sasl_is_refused_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let server = async {
        let (mut theirs, _) = listener.accept().await.expect("the client connects");
        let offer = Encoder::new().u32(1).i32(1).finish();
        serve(&mut theirs, |frame| answer(frame, Kind::Reply, Status::Ok, offer)).await;
    };
    let (result, ()) = tokio::join!(Connection::open(&socket, "qemu:///system", None), server);
    let error = result.expect_err("SASL is not supported");
    assert!(error.to_string().contains("SASL"), "{error}");
}
