//! The address policy: literals in every spelling, names, and names whose addresses change.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use branchyard_domain::entities::AttemptError;
use branchyard_domain::ports::{AddressError, Sender as _};
use branchyard_domain::values::AccountId;
use branchyard_hooks::{AddressPolicy, HttpSender, Names, SenderOptions, Verdict};
use parking_lot::{Condvar, Mutex};

use crate::receiver::parcel;

/// Hosts as users write them in a URL, and whether a hook may use them.
const HOSTS: &[(&str, bool)] = &[
    // The public internet.
    ("8.8.8.8", true),
    ("1.1.1.1", true),
    ("11.0.0.1", true),
    ("9.255.255.255", true),
    ("100.63.255.255", true),
    ("100.128.0.0", true),
    ("126.255.255.255", true),
    ("128.0.0.1", true),
    ("169.253.255.255", true),
    ("169.255.0.0", true),
    ("172.15.255.255", true),
    ("172.32.0.0", true),
    ("192.0.1.0", true),
    ("192.0.3.0", true),
    ("192.167.255.255", true),
    ("192.169.0.0", true),
    ("198.17.255.255", true),
    ("198.20.0.0", true),
    ("203.0.112.255", true),
    ("203.0.114.0", true),
    ("223.255.255.255", true),
    ("[2606:4700:4700::1111]", true),
    ("[2001:200::1]", true),
    ("[2001:4860:4860::8888]", true),
    ("[2a00:1450:4001::200e]", true),
    ("ci.example.test", true),
    ("localhost", true), // names are checked when they are resolved
    // IPv4 networks that are not public.
    ("0.0.0.0", false),
    ("0.255.255.255", false),
    ("10.0.0.0", false),
    ("10.255.255.255", false),
    ("100.64.0.0", false),
    ("100.127.255.255", false),
    ("127.0.0.1", false),
    ("127.255.255.254", false),
    ("169.254.169.254", false),
    ("172.16.0.0", false),
    ("172.31.255.255", false),
    ("192.0.0.255", false),
    ("192.0.2.1", false),
    ("192.88.99.1", false),
    ("192.168.0.1", false),
    ("198.18.0.0", false),
    ("198.19.255.255", false),
    ("198.51.100.7", false),
    ("203.0.113.7", false),
    ("224.0.0.1", false),
    ("239.255.255.255", false),
    ("240.0.0.1", false),
    ("255.255.255.255", false),
    // Other spellings of such addresses.
    ("2130706433", false),
    ("0x7f000001", false),
    ("0x7f.1", false),
    ("0177.0.0.1", false),
    ("127.1", false),
    ("127.0.1", false),
    ("0", false),
    ("0x0", false),
    ("0xa9fea9fe", false),
    ("0251.0376.0251.0376", false),
    ("167772161", false),
    ("127.0.0.1.", false),
    ("１２７.0.0.1", false),
    ("%31%32%37.0.0.1", false),
    // IPv6 networks that are not public.
    ("[::]", false),
    ("[::1]", false),
    ("[::2]", false),
    ("[::7f00:1]", false),
    ("[::ffff:127.0.0.1]", false),
    ("[::ffff:8.8.8.8]", false),
    ("[::ffff:0:10.0.0.1]", false),
    ("[64:ff9b::10.0.0.1]", false),
    ("[64:ff9b::8.8.8.8]", false),
    ("[64:ff9b:1::1]", false),
    ("[100::1]", false),
    ("[100:0:0:1::1]", false),
    ("[2001::1]", false),
    ("[2001:1ff:ffff::1]", false),
    ("[2001:db8::1]", false),
    ("[2002:7f00:1::]", false),
    ("[3fff::1]", false),
    ("[3fff:fff::1]", false),
    ("[5f00::1]", false),
    ("[fc00::1]", false),
    ("[fdff:ffff::1]", false),
    ("[fe80::1]", false),
    ("[febf::1]", false),
    ("[fec0::1]", false),
    ("[ff02::1]", false),
    ("[4000::1]", false),
    ("[1fff::1]", false),
];

fn sender_for(policy: AddressPolicy, names: impl Names) -> HttpSender {
    let options = SenderOptions { policy, timeout: Duration::from_secs(2), ..SenderOptions::default() };
    HttpSender::with_names(options, Arc::new(names)).unwrap()
}

/// Checks a URL as at registration, including the look-up of its name.
fn checked(sender: &HttpSender, url: &str) -> Result<String, AddressError> {
    let url = sender.check(url)?;
    let (give, take) = mpsc::channel();
    sender.look_up(caller(1), &url, Box::new(move |found| give.send(found).unwrap()));
    take.recv().unwrap().map(|()| url)
}

fn caller(n: u128) -> AccountId {
    AccountId::from_uuid(uuid::Uuid::from_u128(n))
}

/// A resolver that must not be called.
struct Silent;

impl Names for Silent {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        panic!("{name} was resolved")
    }
}

/// A resolver that returns these lists of addresses for any name, one list per call.
struct Answers(Vec<Vec<&'static str>>, AtomicUsize);

impl Answers {
    fn always(addresses: &[&'static str]) -> Self {
        Self(vec![addresses.to_vec()], AtomicUsize::new(0))
    }
}

impl Names for Answers {
    fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let at = self.1.fetch_add(1, Ordering::SeqCst).min(self.0.len() - 1);
        Ok(self.0[at].iter().map(|text| text.parse().unwrap()).collect())
    }
}

#[test]
fn literals_are_seen_as_what_they_are() {
    assert!(HOSTS.len() >= 60);
    let sender = sender_for(AddressPolicy::default(), Silent);
    for (host, may) in HOSTS {
        let checked = sender.check(&format!("https://{host}:8443/hook"));
        match may {
            true => assert!(checked.is_ok(), "{host}: {checked:?}"),
            false => assert!(matches!(checked, Err(AddressError::Refused(_))), "{host}: {checked:?}"),
        }
    }
    // A zone cannot be part of an address in a URL.
    assert!(matches!(sender.check("https://[fe80::1%25eth0]/"), Err(AddressError::Invalid(_))));
}

#[test]
fn what_resolves_is_checked_by_the_same_list() {
    for (host, _) in HOSTS {
        let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() else { continue };
        let verdict = AddressPolicy::default().verdict(address);
        let may = HOSTS.iter().any(|(other, may)| other == host && *may);
        assert_eq!(verdict, if may { Verdict::Public } else { Verdict::Refused }, "{host}");
        if !may {
            let text: &'static str = Box::leak(address.to_string().into_boxed_str());
            let sent = sender_for(AddressPolicy::default(), Answers::always(&[text]))
                .send(&parcel("https://hook.test/"))
                .unwrap();
            assert_eq!(sent.error, Some(AttemptError::BlockedAddress), "{host}");
        }
    }
}

#[test]
fn addresses_that_are_no_urls_for_hooks() {
    let sender = sender_for(AddressPolicy::default(), Silent);
    let long = |bytes: usize| format!("https://hook.test/{}", "x".repeat(bytes - "https://hook.test/".len()));
    assert_eq!(sender.check(&long(2_048)).unwrap().len(), 2_048);
    let too_long = long(2_049);
    // Each character takes three bytes per UTF-8 byte once the URL is normalized.
    let grows = format!("https://hook.test/{}", "ü".repeat(400));
    for bad in [
        "",
        "hook.test",
        "/hook",
        "https://",
        "https:///",
        "ftp://hook.test/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://user@hook.test/",
        "https://user:password@hook.test/",
        "https://:password@hook.test/",
        "https://hook.test/#part",
        "https://hook.test/#",
        "https://hook.test:99999/",
        "https://[::1/",
        "https://1.2.3.4.5/",
        "https://256.1.1.1/",
        "https://hook test/",
        "https://ho%20ok.test/",
        "https://ho|ok.test/",
        "https://ho^ok.test/",
        &too_long,
        &grows,
    ] {
        assert!(matches!(sender.check(bad), Err(AddressError::Invalid(_))), "{bad}");
    }
    for (written, kept) in [
        ("https://Hook.TEST", "https://hook.test/"),
        ("https://hook.test:443/a/../b?x=ü", "https://hook.test/b?x=%C3%BC"),
        ("  https://bücher.test/ ", "https://xn--bcher-kva.test/"),
        ("HTTPS://hook.test:8443/", "https://hook.test:8443/"),
        // Escapes are those of the URL standard, and what looks like an escape stays as it is.
        ("https://hook.test/%zz%4%41%", "https://hook.test/%zz%4%41%"),
        ("https://hook.test/a|b[1]?c=[2]|\\`{d}%%42", "https://hook.test/a|b[1]?c=[2]|\\`{d}%%42"),
        ("https://hook.test/{a}`<b>\"?<c>\"'", "https://hook.test/%7Ba%7D%60%3Cb%3E%22?%3Cc%3E%22%27"),
        // A name may hold what the URL standard does not forbid.
        ("https://a!b.test/", "https://a!b.test/"),
        ("https://_a.b-$&'()*+,;=~.test/", "https://_a.b-$&'()*+,;=~.test/"),
        ("https://ho\"ok.test/", "https://ho\"ok.test/"),
        ("https://{hook}`.test/", "https://{hook}`.test/"),
    ] {
        assert_eq!(sender.check(written).as_deref(), Ok(kept), "{written}");
    }
}

#[test]
fn what_can_never_be_opened_is_named() {
    let everything = || AddressPolicy::opening(&["0.0.0.0/0", "::/0"]).unwrap();
    for (host, what) in [
        ("224.0.0.1", "multicast addresses (224.0.0.0/4)"),
        ("[ff02::1]", "multicast addresses (ff00::/8)"),
        ("[::ffff:224.0.0.1]", "multicast addresses (224.0.0.0/4)"),
        ("[64:ff9b::239.1.1.1]", "multicast addresses (224.0.0.0/4)"),
        ("255.255.255.255", "reserved and broadcast addresses (240.0.0.0/4)"),
        ("0", "addresses of the network itself (0.0.0.0/8)"),
        ("[::]", "unspecified addresses (::)"),
    ] {
        for policy in [AddressPolicy::default(), everything()] {
            let sender = sender_for(policy, Silent);
            let refused = sender.check(&format!("https://{host}/"));
            let text = format!("{what} are never allowed for hooks, and the operator of this server cannot open them");
            assert_eq!(refused, Err(AddressError::Refused(text)), "{host}");
            let invalid = sender.check(&format!("http://{host}/"));
            let text = format!("must begin with https://; {what} are never allowed");
            assert_eq!(invalid, Err(AddressError::Invalid(text)), "{host}");
        }
    }
    let refused = sender_for(AddressPolicy::default(), Silent).check("https://10.0.0.1/").unwrap_err();
    assert!(refused.to_string().ends_with("the operator of this server can open it"), "{refused}");
}

#[test]
fn a_name_that_no_request_can_carry_does_not_resolve() {
    for host in ["ho\"ok.test", "{hook}.test", "ho`ok.test"] {
        let sent = sender_for(AddressPolicy::default(), Silent).send(&parcel(&format!("https://{host}/"))).unwrap();
        assert_eq!(sent.error, Some(AttemptError::Dns), "{host}");
    }
}

#[test]
fn without_encryption_only_where_the_operator_opened_a_network() {
    let opened = || AddressPolicy::opening(&["10.20.0.0/16", "fd00:1234::/48"]).unwrap();
    let check = |names: &[&'static str], url: &str| checked(&sender_for(opened(), Answers::always(names)), url);
    assert!(check(&[], "http://10.20.1.1/").is_ok());
    assert!(check(&[], "https://10.20.1.1/").is_ok());
    assert!(check(&[], "http://[fd00:1234::7]:8080/").is_ok());
    assert!(check(&["10.20.1.1", "fd00:1234::1"], "http://inside.test/").is_ok());
    for (names, url) in [
        (&[][..], "http://10.21.1.1/"),
        (&[], "http://8.8.8.8/"),
        (&[], "http://127.0.0.1/"),
        (&["8.8.8.8"], "http://outside.test/"),
        (&["10.20.1.1", "8.8.8.8"], "http://both.test/"),
        (&[], "http://nothing.test/"),
    ] {
        assert!(matches!(check(names, url), Err(AddressError::Invalid(_))), "{url}");
    }
    // The same rule applies to the attempt: plain HTTP goes only into opened networks.
    for names in [&["8.8.8.8"][..], &["127.0.0.1"]] {
        let sent = sender_for(opened(), Answers::always(names)).send(&parcel("http://inside.test/")).unwrap();
        assert_eq!(sent.error, Some(AttemptError::BlockedAddress));
    }
    let sent = sender_for(opened(), Silent).send(&parcel("http://8.8.8.8/")).unwrap();
    assert_eq!(sent.error, Some(AttemptError::BlockedAddress));
}

#[test]
fn a_name_is_looked_up_only_where_a_network_is_opened_and_the_answer_says_what_is_wrong() {
    let closed = sender_for(AddressPolicy::default(), Silent);
    assert!(matches!(closed.check("http://inside.test/"), Err(AddressError::Invalid(_))));
    assert!(matches!(closed.check("http://10.20.1.1/"), Err(AddressError::Invalid(_))));
    assert!(checked(&closed, "https://elsewhere.test/").is_ok());
    let opened = || AddressPolicy::opening(&["10.20.0.0/16"]).unwrap();
    assert!(checked(&sender_for(opened(), Silent), "http://10.20.1.1/").is_ok());
    for (addresses, why) in [(&[][..], "x.test does not resolve"), (&["8.8.8.8"], "outside the networks")] {
        let refused = checked(&sender_for(opened(), Answers::always(addresses)), "http://x.test/").unwrap_err();
        assert!(matches!(&refused, AddressError::Invalid(text) if text.contains(why)), "{refused}");
    }
}

/// A resolver that blocks until it is released.
#[derive(Clone, Default)]
struct Held(Arc<(Mutex<(usize, bool)>, Condvar)>);

impl Held {
    /// Waits until this many look-ups have begun.
    fn wait_for(&self, count: usize) {
        let (state, changed) = &*self.0;
        changed.wait_while(&mut state.lock(), |(asked, _)| *asked < count);
    }

    fn release(&self) {
        self.0.0.lock().1 = true;
        self.0.1.notify_all();
    }
}

impl Names for Held {
    fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let (state, changed) = &*self.0;
        let mut held = state.lock();
        held.0 += 1;
        changed.notify_all();
        changed.wait_while(&mut held, |(_, is_released)| !*is_released);
        Ok(vec!["10.20.1.1".parse().unwrap()])
    }
}

#[test]
fn silent_name_servers_hold_up_nobody_else() {
    let names = Held::default();
    let sender = sender_for(AddressPolicy::opening(&["10.20.0.0/16"]).unwrap(), names.clone());
    let (give, take) = mpsc::channel();
    let look_up = |n: u128| {
        let give = give.clone();
        sender.look_up(caller(n), "http://silent.test/", Box::new(move |found| give.send((n, found)).unwrap()));
    };
    look_up(1);
    look_up(1);
    names.wait_for(2);
    look_up(1);
    assert_eq!(take.recv().unwrap(), (1, Err(AddressError::TooManyLookups(2))));
    // The first look-ups do not delay a URL that needs no look-up, or another caller.
    assert!(checked(&sender, "https://elsewhere.test/").is_ok());
    look_up(2);
    names.wait_for(3);
    for _ in 0..3 {
        let (_, found) = take.recv().unwrap();
        assert!(matches!(found, Err(AddressError::Invalid(text)) if text.contains("does not resolve")));
    }
    look_up(1);
    assert_eq!(take.recv().unwrap(), (1, Err(AddressError::TooManyLookups(2))), "the resolver works on them still");
    names.release();
    look_up(3);
    assert_eq!(take.recv().unwrap(), (3, Ok(())));
}

#[test]
fn some_networks_cannot_be_opened() {
    let everything = AddressPolicy::opening(&["0.0.0.0/0", "::/0"]).unwrap();
    for (text, verdict) in [
        ("0.0.0.0", Verdict::Refused),
        ("0.1.2.3", Verdict::Refused),
        ("224.0.0.1", Verdict::Refused),
        ("255.255.255.255", Verdict::Refused),
        ("::", Verdict::Refused),
        ("ff02::1", Verdict::Refused),
        ("::ffff:0.0.0.0", Verdict::Refused),
        ("64:ff9b::224.0.0.1", Verdict::Refused),
        ("127.0.0.1", Verdict::Opened),
        ("10.0.0.1", Verdict::Opened),
        ("::1", Verdict::Opened),
        ("fe80::1", Verdict::Opened),
        ("8.8.8.8", Verdict::Opened),
    ] {
        assert_eq!(everything.verdict(text.parse().unwrap()), verdict, "{text}");
    }
    let nat64 = AddressPolicy::opening(&["64:ff9b::/96"]).unwrap();
    assert_eq!(nat64.verdict("64:ff9b::8.8.8.8".parse().unwrap()), Verdict::Opened);
    assert_eq!(nat64.verdict("64:ff9b::10.0.0.1".parse().unwrap()), Verdict::Refused);
    let both = AddressPolicy::opening(&["64:ff9b::/96", "10.0.0.0/8"]).unwrap();
    assert_eq!(both.verdict("64:ff9b::10.0.0.1".parse().unwrap()), Verdict::Opened);
    for bad in ["", "10.0.0.0/33", "10.0.0.0", "hook.test", "10.0.0.0/8,::1/128"] {
        assert_eq!(AddressPolicy::opening(&[bad]).unwrap_err().0, bad);
    }
}

/// A listener that fails the test if a connection is made.
struct Untouched(TcpListener);

impl Untouched {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }
}

impl Drop for Untouched {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(50));
        assert!(self.0.accept().is_err(), "somebody connected");
    }
}

#[test]
fn a_name_that_changes_its_mind_is_blocked_and_nobody_connects() {
    let listener = Untouched::new();
    let url = format!("https://hook.test:{}/", listener.port());
    let names = Answers(vec![vec!["10.20.0.1"], vec!["127.0.0.1"]], AtomicUsize::new(0));
    let sender = sender_for(AddressPolicy::opening(&["10.20.0.0/16"]).unwrap(), names);
    let plain = url.replace("https", "http");
    assert_eq!(checked(&sender, &plain).as_deref(), Ok(plain.as_str()), "inside at registration");
    assert_eq!(
        sender.send(&parcel(&plain)).unwrap().error,
        Some(AttemptError::BlockedAddress),
        "and elsewhere at the attempt"
    );
    assert_eq!(sender.send(&parcel(&url)).unwrap().error, Some(AttemptError::BlockedAddress));
    let literal = format!("https://127.0.0.1:{}/", listener.port());
    assert_eq!(
        sender.send(&parcel(&literal)).unwrap().error,
        Some(AttemptError::BlockedAddress),
        "saved before the rule"
    );
}

#[test]
fn the_connection_goes_to_what_was_checked() {
    // A second resolution would return another address. It never happens.
    let receiver = crate::receiver::Receiver::start(|stream| {
        crate::receiver::answer(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let names = Answers(vec![vec!["10.9.9.9", "127.0.0.1"], vec!["127.0.0.2"]], AtomicUsize::new(0));
    let sender = sender_for(AddressPolicy::opening(&["127.0.0.0/8"]).unwrap(), names);
    let sent = sender.send(&parcel(&format!("http://hook.test:{}/", receiver.address.port()))).unwrap();
    assert!(sent.delivered(), "refused addresses are dropped, the others are used: {sent:?}");
    assert_eq!(receiver.next().headers["host"], format!("hook.test:{}", receiver.address.port()));
}

#[test]
fn names_that_do_not_resolve() {
    struct Unknown;
    impl Names for Unknown {
        fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            Err(io::Error::other("no such name"))
        }
    }
    let sent = sender_for(AddressPolicy::default(), Unknown).send(&parcel("https://hook.test/")).unwrap();
    assert_eq!(sent.error, Some(AttemptError::Dns));
    let sent = sender_for(AddressPolicy::default(), Answers::always(&[])).send(&parcel("https://hook.test/")).unwrap();
    assert_eq!(sent.error, Some(AttemptError::Dns));
}

#[test]
fn the_resolver_of_the_system_knows_this_machine() {
    let sender = HttpSender::new(SenderOptions::default()).unwrap();
    let listener = Untouched::new();
    let sent = sender.send(&parcel(&format!("https://localhost:{}/", listener.port()))).unwrap();
    assert_eq!(sent.error, Some(AttemptError::BlockedAddress));
}
