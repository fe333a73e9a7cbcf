//! One caller's long work does not delay another caller: workers, name resolution, the permits of the dispatcher.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use branchyard::compose::Names;
use branchyard_testkit::{AMPLE, Actor, Receiver, Server, wait_until};
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

fn sql_write(actor: &Actor, database: &str, q: &str) -> Value {
    let body = json!({"from_branch": "main", "to_branch": "main", "q": q});
    actor.post(&format!("/databases/{}/{database}/sql-writes", actor.name()), &body).expect(202).data()
}

fn operation(actor: &Actor, queued: &Value) -> Value {
    actor.get(queued["href"].as_str().unwrap()).expect(200).data()
}

fn is_settled(operation: &Value) -> bool {
    operation["status"] == "succeeded" || operation["status"] == "failed"
}

/// One user has 20 writes in four databases that compute until their timeout. Another user has short writes meanwhile.
#[test]
fn long_writes_of_one_user_do_not_hold_up_another_one() {
    let server = Server::start_with(|config| {
        config.operations.workers = 2;
        config.sql.write_timeout_ms = 20_000;
    });
    let (ada, ben) = (server.user("ada"), server.user("ben"));
    let databases = ["one", "two", "three", "four"];
    databases.iter().for_each(|name| drop(ada.database(name)));
    ben.database("own");
    let endless = "create table t as with recursive c(n) as (select 1 union all select n + 1 from c) \
                   select n from c where n < 0";
    let long: Vec<Value> = (0..20).map(|n| sql_write(&ada, databases[n % 4], endless)).collect();
    for n in 0..3 {
        let short = sql_write(&ben, "own", &format!("create table t{n} (x)"));
        wait_until("the end of the short write", AMPLE, || is_settled(&operation(&ben, &short)));
        assert_eq!(operation(&ben, &short)["status"], "succeeded");
    }
    // Each long write takes 20 s. If the long writes held all workers, a short one would wait until one of them ends.
    let over = long.iter().filter(|queued| is_settled(&operation(&ada, queued))).count();
    assert_eq!(over, 0);
    for queued in &long {
        let id = operation(&ada, queued)["id"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        // A running write ends by itself.
        ada.post(&format!("/operations/{id}/cancel"), &json!({}));
    }
}

/// A resolver that does not answer until it is released.
#[derive(Default)]
struct Silent {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Silent {
    fn wait_for(&self, count: usize) {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |(asked, _)| *asked < count, AMPLE);
        assert!(state.0 >= count, "{} of {count} names are looked up", state.0);
    }

    fn release(&self) {
        self.state.lock().1 = true;
        self.changed.notify_all();
    }
}

impl Names for Silent {
    fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let mut state = self.state.lock();
        state.0 += 1;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |(_, is_released)| !*is_released);
        Ok(vec!["127.0.0.1".parse().unwrap()])
    }
}

#[test]
fn names_that_do_not_resolve_hold_up_no_writes() {
    const USERS: usize = 10;
    let names = Arc::new(Silent::default());
    let server = Server::with_names(names.clone(), |config| {
        config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
    });
    let ada = server.user("ada");
    ada.database("rivers");
    let users: Vec<Actor> = (0..USERS).map(|n| server.user(&format!("user{n}"))).collect();
    let hooks: Vec<(String, String)> = users
        .iter()
        .map(|user| {
            user.database("own");
            let hooks = format!("/databases/{}/own/hooks", user.name());
            let known = user.post(&hooks, &json!({"url": "https://ci.example.test/"})).expect(201).data();
            (hooks.clone(), format!("{hooks}/{}", known["id"].as_str().unwrap()))
        })
        .collect();
    let body = json!({"url": "http://silent.test/"});
    std::thread::scope(|scope| {
        let mut asked = Vec::new();
        for (user, (all, one)) in users.iter().zip(&hooks) {
            let body = &body;
            asked.push(scope.spawn(move || user.post(all, body).status));
            asked.push(scope.spawn(move || user.patch(one, body).status));
        }
        // More than the permits for writes.
        names.wait_for(17);
        for n in 0..20 {
            let body = json!({"name": format!("b{n}"), "from": {"branch": "main"}});
            ada.post("/databases/ada/rivers/branches", &body).expect(201);
        }
        names.release();
        for status in asked {
            // A request is refused if it waited longer than the name resolution may take.
            assert!(matches!(status.join().unwrap(), 200 | 201 | 400));
        }
    });
    // Once the resolver answers, the same names are accepted.
    for (user, (all, _)) in users.iter().zip(&hooks) {
        user.post(all, &body).expect(201);
    }
}

#[test]
fn hooks_that_fall_silent_leave_places_to_others() {
    const SILENT: usize = 4;
    let server = Server::start_with(|config| {
        config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
        config.hooks.concurrency = SILENT;
        config.hooks.timeout_ms = 120_000;
    });
    let ada = server.user("ada");
    ada.database("rivers");
    let path = "/databases/ada/rivers/hooks";
    let branch = |name: &str| {
        ada.post("/databases/ada/rivers/branches", &json!({"name": name, "from": {"branch": "main"}})).expect(201);
    };
    let register = |receiver: &Receiver| {
        let hook = ada.post(path, &json!({"url": receiver.url(), "events": ["on_branch"]})).expect(201).data();
        format!("{path}/{}/deliveries", hook["id"].as_str().unwrap())
    };
    // Each receiver answers one event, and none after that.
    let silent: Vec<Receiver> = (0..SILENT).map(|_| Receiver::with(|n| (n == 0).then_some(204))).collect();
    let logs: Vec<String> = silent.iter().map(register).collect();
    branch("a");
    silent.iter().for_each(|receiver| drop(receiver.wait_for(1)));
    branch("b");
    silent.iter().for_each(|receiver| drop(receiver.wait_for(2)));
    let good = Receiver::start();
    register(&good);
    for n in 1..=3 {
        branch(&format!("good{n}"));
        good.wait_for(n);
    }
    for log in &logs {
        // The log is newest first, and the deliveries of the other branches come before this one.
        let second = &ada.get(log).expect(200).data()[3];
        assert_eq!((&second["status"], &second["attempt_count"]), (&json!("pending"), &json!(0)), "it is silent still");
    }
    // Attempts in progress would last until they time out.
    server.hub().dispatch().abort();
}
