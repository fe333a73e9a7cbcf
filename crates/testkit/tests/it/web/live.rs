//! The streams on which open pages learn that they changed.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use branchyard_domain::access::ServerAdmin;
use branchyard_testkit::{AMPLE, RawConnection, Server, wait_for};
use serde_json::json;

use super::browser::Browser;
use super::{PASSWORD, database, open_server, sign_in, sign_up, user};
use crate::nodes::Cluster;

const SECOND: Duration = Duration::from_secs(1);
const OPERATIONS: &str = "/ada/rivers/live?operations=all";
pub(super) const CHANGED: &str = "event: changed\ndata: changed\n\n";

/// A stream as a client reads it.
pub(super) struct OpenStream {
    stream: TcpStream,
    /// The head of the response.
    head: String,
    /// What was received and not taken yet.
    received: String,
}

impl OpenStream {
    /// Asks for a stream with the cookies of a browser.
    pub(super) fn open(server: &Server, browser: &Browser, path: &str) -> Self {
        let cookies: Vec<_> = browser.cookies.borrow().iter().map(|(name, value)| format!("{name}={value}")).collect();
        Self::ask(
            server,
            Ipv4Addr::LOCALHOST,
            &format!("GET {path} HTTP/1.1"),
            &format!("cookie: {}\r\n", cookies.join("; ")),
        )
    }

    fn ask(server: &Server, from: Ipv4Addr, request: &str, headers: &str) -> Self {
        let mut connection = RawConnection::open_from(from, server.socket()).unwrap();
        let stream = connection.stream().try_clone().unwrap();
        let mut opened = Self { stream, head: String::new(), received: String::new() };
        opened.stream.write_all(format!("{request}\r\nhost: x\r\n{headers}\r\n").as_bytes()).unwrap();
        opened.until("\r\n\r\n", AMPLE);
        opened
    }

    /// Checks that the stream was opened, and takes its first event, which a new stream always has.
    #[track_caller]
    pub(super) fn expect_open(mut self) -> Self {
        assert!(self.head.starts_with("HTTP/1.1 200 "), "{}{}", self.head, self.received);
        self.until(CHANGED, AMPLE);
        self
    }

    #[track_caller]
    pub(super) fn expect_status(&self, status: u16) -> &Self {
        assert!(self.head.starts_with(&format!("HTTP/1.1 {status} ")), "{}{}", self.head, self.received);
        self
    }

    /// Returns `false` at the end of the connection.
    fn receive(&mut self, until: Instant) -> bool {
        let mut buffer = [0; 4096];
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(left)).unwrap();
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.received.push_str(&String::from_utf8_lossy(&buffer[..count]));
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => true,
            Err(_) => false,
        }
    }

    /// Reads up to a text, and drops what came before.
    #[track_caller]
    pub(super) fn until(&mut self, text: &str, at_most: Duration) {
        let until = Instant::now() + at_most;
        loop {
            if let Some(at) = self.received.find(text) {
                let rest = self.received.split_off(at + text.len());
                let taken = std::mem::replace(&mut self.received, rest);
                if self.head.is_empty() {
                    self.head = taken;
                }
                return;
            }
            assert!(Instant::now() < until, "no {text:?} in time, but {:?}", self.received);
            assert!(self.receive(until), "the stream ended after {:?}", self.received);
        }
    }

    /// Waits for an event. Returns `false` if there is none in time.
    fn hears(&mut self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        while !self.received.contains(CHANGED) && Instant::now() < until {
            assert!(self.receive(until), "the stream ended after {:?}", self.received);
        }
        self.received.contains(CHANGED)
    }

    /// Waits for the end of the stream, and checks that the response is complete.
    #[track_caller]
    pub(super) fn ends(&mut self, why: &str, at_most: Duration) {
        self.until(&format!("event: end\ndata: {why}\n\n"), at_most);
        self.until("0\r\n\r\n", at_most);
    }
}

#[test]
fn a_change_arrives_within_a_second_and_proxies_pass_it_on() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let actor = database(&server, &ada, "ada");
    let cookies =
        ada.cookies.borrow().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
    let headers = format!("cookie: {cookies}\r\naccept-encoding: gzip, br, zstd\r\n");
    let mut stream = OpenStream::ask(&server, Ipv4Addr::LOCALHOST, &format!("GET {OPERATIONS} HTTP/1.1"), &headers);
    let head = stream.head.to_ascii_lowercase();
    for line in [
        "content-type: text/event-stream",
        "cache-control: no-store",
        "x-accel-buffering: no",
        "transfer-encoding: chunked",
    ] {
        assert!(head.contains(&format!("{line}\r\n")), "no {line} in {head}");
    }
    assert!(!head.contains("content-encoding") && !head.contains("content-length"), "{head}");
    stream.until("retry: 10000\n\n", SECOND);
    stream = stream.expect_open();
    assert!(!stream.hears(SECOND), "nothing has changed");
    for round in 0..3 {
        actor.write("ada/rivers", "main", &format!("insert into r values ({round}, 'x')"));
        stream.until(CHANGED, SECOND);
    }
    // Of other databases, nothing arrives.
    actor.database("lakes");
    actor.write("ada/lakes", "main", "create table r (id integer primary key)");
    assert!(!stream.hears(SECOND));

    // An operation is followed to its end, and a pull request until it is merged.
    let statements = "create table t (id integer primary key); insert into t with recursive n(i) as \
                      (select 1 union all select i + 1 from n where i < 600000) select i from n";
    let body = json!({"from_branch": "main", "to_branch": "b", "q": statements});
    let accepted = actor.post("/databases/ada/rivers/sql-writes", &body).expect(202);
    let id = accepted.data()["id"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let mut followed = OpenStream::open(&server, &ada, &format!("/ada/rivers/live?operation={id}")).expect_open();
    actor.finish(&accepted);
    followed.until(CHANGED, SECOND);
    let place = |branch| json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": branch});
    let pull = json!({"title": "p", "from_branch": place("b"), "to_branch": place("main")});
    actor.post("/databases/ada/rivers/pulls", &pull).expect(201);
    let mut merged = OpenStream::open(&server, &ada, "/ada/rivers/live?pull=1").expect_open();
    actor.finish(&actor.post("/databases/ada/rivers/pulls/1/merge", &json!({})));
    merged.until(CHANGED, SECOND);
}

#[test]
fn an_old_proxy_reads_until_the_connection_ends() {
    let mut server = open_server();
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    let mut stream = OpenStream::ask(&server, Ipv4Addr::LOCALHOST, &format!("GET {OPERATIONS} HTTP/1.0"), "");
    stream.until("retry: 10000\n\n", SECOND);
    assert!(stream.head.contains(" 200 "), "{}", stream.head);
    stream.until(CHANGED, AMPLE);
    server.restart();
    stream.until("event: end\ndata: server\n\n", SECOND);
    wait_for("the end of the connection", AMPLE, || {
        if stream.receive(Instant::now() + SECOND) { Err("it is open") } else { Ok(()) }
    });
}

#[test]
fn a_stream_ends_with_its_session_and_no_other_does() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    let other = Browser::at(&server);
    sign_in(&other, "ada", PASSWORD).expect(303);
    let visitor = Browser::at(&server);
    let mut kept = OpenStream::open(&server, &other, OPERATIONS).expect_open();
    let mut public = OpenStream::open(&server, &visitor, OPERATIONS).expect_open();

    let mut stream = OpenStream::open(&server, &ada, OPERATIONS).expect_open();
    let page = ada.get("/").expect(200);
    ada.submit(&page, "/sign-out", &[]).expect(303);
    stream.ends("rights", SECOND);

    sign_in(&ada, "ada", PASSWORD).expect(303);
    let mut stream = OpenStream::open(&server, &ada, OPERATIONS).expect_open();
    let page = other.get("/settings/sessions").expect(200);
    other.submit(&page, "/settings/sessions/end-all", &[]).expect(303);
    stream.ends("rights", SECOND);
    assert!(!kept.hears(SECOND) && !public.hears(Duration::ZERO), "and the others go on");

    // The user is suspended.
    let admin: ServerAdmin = server.hub().administration().operator();
    server.hub().administration().suspend(&admin, "ada").unwrap();
    kept.ends("rights", SECOND);
    assert!(!public.hears(SECOND));
}

#[test]
fn a_stream_ends_when_the_viewer_loses_a_role_or_the_database_goes() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    let actor = database(&server, &ada, "ada");
    let put = |role: &str| {
        let request = actor.request(reqwest::Method::PUT, "/databases/ada/rivers/collaborators/bob");
        actor.send(request.json(&json!({"role": role})))
    };
    let visitor = Browser::at(&server);
    let mut public = OpenStream::open(&server, &visitor, OPERATIONS).expect_open();
    actor.patch("/databases/ada/rivers", &json!({"visibility": "private"})).expect(200);
    public.ends("rights", SECOND);
    OpenStream::open(&server, &visitor, OPERATIONS).expect_status(404);
    OpenStream::open(&server, &bob, OPERATIONS).expect_status(404);

    put("write");
    let mut lowered = OpenStream::open(&server, &bob, OPERATIONS).expect_open();
    put("read");
    lowered.ends("rights", SECOND);
    let mut lost = OpenStream::open(&server, &bob, OPERATIONS).expect_open();
    let mut deleted = OpenStream::open(&server, &ada, OPERATIONS).expect_open();
    actor.delete("/databases/ada/rivers/collaborators/bob").expect(200);
    lost.ends("rights", SECOND);
    assert!(!deleted.hears(SECOND), "its own rights are as they were");
    actor.delete("/databases/ada/rivers").expect(200);
    deleted.ends("rights", SECOND);
}

#[test]
fn a_stream_wants_the_permissions_of_its_page() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    let actor = database(&server, &ada, "ada");
    actor.database("lakes");
    let list = ada.get("/ada/rivers/operations").expect(200);
    let id = list.text.split("/ada/rivers/operations/").nth(1).unwrap().split('"').next().unwrap().to_owned();
    actor.patch("/databases/ada/rivers", &json!({"visibility": "private"})).expect(200);
    let below = [&format!("operation={id}"), "operations=all", "pull=1", "hook=00000000-0000-7000-8000-000000000000"]
        .map(str::to_owned);
    for browser in [&bob, &Browser::at(&server)] {
        // A new visitor gets a secret for forms.
        browser.get("/").expect(200);
        for query in &below {
            let hidden = browser.get(&format!("/ada/rivers/live?{query}"));
            let missing = browser.get(&format!("/ada/mirage/live?{query}"));
            let elsewhere = missing.location.as_deref().map(|to| to.replace("mirage", "rivers"));
            assert_eq!((hidden.status, hidden.location.clone()), (missing.status, elsewhere));
            assert_eq!(hidden.text.replace("rivers", "mirage"), missing.text, "{query}");
            // The settings of webhooks want a user.
            let is_visitor = browser.cookies.borrow().keys().all(|name| !name.contains("session"));
            assert_eq!(hidden.status, if is_visitor && query.starts_with("hook") { 303 } else { 404 }, "{query}");
        }
    }
    // Of another database, nothing at all, or nothing that exists.
    for query in [&format!("operation={id}"), "", "operation=x", "pull=x", "pull=1", "hook=x", &below[3]] {
        ada.get(&format!("/ada/lakes/live?{query}")).expect(404);
    }
    actor.patch("/databases/ada/rivers", &json!({"visibility": "public"})).expect(200);
    bob.get(&format!("/ada/rivers/live?{}", below[3])).expect(403);
    bob.get("/deployments/ada/gauges/live").expect(404);
    Browser::at(&server).get("/deployments/ada/gauges/live").expect(303);
}

#[test]
fn beyond_the_limits_a_page_has_to_poll() {
    let server = Server::start_with(|config| {
        config.web.sign_up = "open".to_owned();
        config.web.live_connections = 22;
        config.metrics.listen = Some("127.0.0.1:0".to_owned());
    });
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    database(&server, &ada, "ada");
    let asked: Vec<_> = (0..20).map(|_| OpenStream::open(&server, &ada, OPERATIONS)).collect();
    let mut of_ada: Vec<_> = asked.into_iter().map(OpenStream::expect_open).collect();
    let refused = |browser: &Browser| {
        let stream = OpenStream::open(&server, browser, OPERATIONS);
        assert!(stream.expect_status(503).head.to_ascii_lowercase().contains("retry-after: 60\r\n"), "{}", stream.head);
    };
    refused(&ada);
    let of_bob = [(); 2].map(|()| OpenStream::open(&server, &bob, OPERATIONS).expect_open());
    refused(&bob);
    assert_eq!(server.metric("branchyard_live_streams"), 22.0);
    assert_eq!(server.metric("branchyard_live_streams_refused_total"), 2.0);
    // The page itself is served.
    ada.get("/ada/rivers/operations").expect(200);
    // A client that goes away gives its place back.
    of_ada.pop();
    wait_for("a place", AMPLE, || {
        let open = server.metric("branchyard_live_streams");
        if open < 22.0 { Ok(()) } else { Err(format!("{open}")) }
    });
    OpenStream::open(&server, &bob, OPERATIONS).expect_open();
    drop(of_bob);
}

#[test]
fn many_streams_hear_of_a_change_at_once_and_all_end_when_the_server_stops() {
    let mut server = open_server();
    let ada = sign_up(&server, "ada");
    let actor = database(&server, &ada, "ada");
    let asked: Vec<OpenStream> = (0..200)
        .map(|n| {
            // 20 of an address.
            let from = Ipv4Addr::new(127, 0, 1, 1 + u8::try_from(n / 20).unwrap());
            OpenStream::ask(&server, from, &format!("GET {OPERATIONS} HTTP/1.1"), "")
        })
        .collect();
    let mut streams: Vec<OpenStream> = asked.into_iter().map(OpenStream::expect_open).collect();
    actor.write("ada/rivers", "main", "insert into r values (1, 'x')");
    let changed = Instant::now();
    for stream in &mut streams {
        stream.until(CHANGED, (2 * SECOND).saturating_sub(changed.elapsed()));
    }
    let stopping = Instant::now();
    server.restart();
    assert!(stopping.elapsed() < Duration::from_secs(10), "{:?}", stopping.elapsed());
    for stream in &mut streams {
        stream.ends("server", SECOND);
    }
}

#[test]
fn a_page_of_one_node_learns_what_another_changed() {
    let Some(cluster) = Cluster::new("live") else { return };
    let (one, two) = cluster.two();
    user(&one, "ada", false);
    let actor = one.actor_of("ada");
    actor.database("rivers");
    actor.write("ada/rivers", "main", "create table r (id integer primary key, name text)");
    let (here, there) = (Browser::at(&one), Browser::at(&two));
    sign_in(&here, "ada", PASSWORD).expect(303);
    *there.cookies.borrow_mut() = here.cookies.borrow().clone();
    let mut stream = OpenStream::open(&two, &there, OPERATIONS).expect_open();
    assert!(!stream.hears(SECOND), "nothing has changed");
    actor.write("ada/rivers", "main", "insert into r values (1, 'x')");
    stream.until(CHANGED, SECOND);
    let page = here.get("/").expect(200);
    here.submit(&page, "/sign-out", &[]).expect(303);
    stream.ends("rights", SECOND);
    OpenStream::open(&two, &there, OPERATIONS).expect_open();
    let mut visitor = OpenStream::open(&two, &Browser::at(&two), OPERATIONS).expect_open();
    actor.patch("/databases/ada/rivers", &json!({"visibility": "private"})).expect(200);
    visitor.ends("rights", SECOND);
}
