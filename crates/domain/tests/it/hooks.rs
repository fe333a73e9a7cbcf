//! Webhooks: registration, and the path of an event from the outbox to a receiver.

use std::collections::BTreeSet;

use branchyard_domain::access::Admin;
use branchyard_domain::entities::{
    AttemptError, Delivery, DeliveryStatus, DisabledReason, EventName, HookEvent, Visibility,
};
use branchyard_domain::errors::HookError;
use branchyard_domain::ports::{
    AddressError, CancellationToken, Durability, Ids as _, Lease, Metadata as _, RetryAfter, Sent, Vault as _,
    WriteKeys,
};
use branchyard_domain::usecases::{
    EditHook, HookView, IdempotencyRecord, Limits, NewHook, ResealOutcome, Room, Run, SecretHook, UnreadableHook,
};
use branchyard_domain::values::{DeliveryId, HookId, Timestamp};
use branchyard_domain_testing::fakes::{KeyedVault, SaveFault, ScriptedSender};

use crate::harness::{DomainHarness, create, user, world, world_with};
use crate::refs::at;

const URL: &str = "https://hook.test/";

fn room(hooks: usize, held_back: usize) -> Room<'static> {
    Room { hooks, held_back, slow: &[] }
}

impl DomainHarness {
    fn admin(&self) -> branchyard_domain::access::DatabaseAccess<Admin> {
        self.access::<Admin>(&self.ada)
    }

    fn hook_to(&self, url: &str, events: &[HookEvent]) -> Result<SecretHook, HookError> {
        let url = self.hub.hooks().address(&self.admin(), url)?;
        let wanted = NewHook { url, events: events.iter().copied().collect(), active: true };
        self.hub.hooks().create(&self.admin(), wanted, None)
    }

    /// Registers a hook for branch events, after discarding all earlier events.
    pub(crate) fn hooked(&self) -> HookId {
        while !self.hub.dispatch().fan_out().unwrap().is_empty() {}
        self.hook_to(URL, &[HookEvent::Branch]).unwrap().view.hook.id
    }

    fn view(&self, hook: HookId) -> HookView {
        self.hub.hooks().get(&self.admin(), hook).unwrap()
    }

    fn last(&self, hook: HookId) -> Delivery {
        self.view(hook).last_delivery.unwrap()
    }

    fn edit_hook(&self, hook: HookId, edit: EditHook) -> HookView {
        self.hub.hooks().edit(&self.admin(), hook, edit, None).unwrap()
    }

    /// Dispatches all events, makes all due attempts, and returns the number of attempts.
    fn deliver(&self) -> usize {
        let dispatch = self.hub.dispatch();
        while !dispatch.fan_out().unwrap().is_empty() {}
        let mut made = 0;
        let mut leases = dispatch.turn("w", &[], room(9, 9)).unwrap().leases;
        while !leases.is_empty() {
            let done: Vec<_> = leases
                .into_iter()
                .map(|lease| dispatch.attempt(lease, &CancellationToken::default(), || true).unwrap())
                .collect();
            made += done.iter().map(|run| run.attempted.len()).sum::<usize>();
            leases = dispatch.turn("w", &done, room(9, 9)).unwrap().leases;
        }
        made
    }

    fn plan(&self, sent: &Sent, times: usize) {
        (0..times).for_each(|_| self.fakes.sender.plan(URL, sent.clone()));
    }

    /// Advances the clock to the next attempt of a pending delivery and makes the attempt. Returns the delay in seconds.
    fn next_attempt(&self, hook: HookId) -> i64 {
        let DeliveryStatus::Pending { next_attempt_at } = self.last(hook).status else { panic!("not pending") };
        let waited = next_attempt_at.as_micros() - self.hub.now().as_micros();
        self.fakes.clock.set(next_attempt_at);
        assert_eq!(self.deliver(), 1);
        waited / 1_000_000
    }

    fn branches(&self, names: &[&str]) {
        names.iter().for_each(|name| self.branch(name, at("main")).unwrap());
    }
}

fn refused(error: AttemptError) -> Sent {
    Sent { headers: Vec::new(), reply: None, error: Some(error) }
}

#[test]
fn a_hook_is_registered_changed_and_deleted() {
    let world = world();
    let both = [HookEvent::Push, HookEvent::Branch];
    let SecretHook { view, secret } = world.hook_to(URL, &both).unwrap();
    let hook = view.hook;
    assert_eq!((hook.url.as_str(), hook.active, &view.last_delivery), (URL, true, &None));
    assert_eq!(hook.events, BTreeSet::from(both));
    assert!(secret.expose().starts_with("whsec_") && secret.expose().len() == 50, "32 bytes in base64");
    assert!(!format!("{secret:?} {hook:?}").contains(secret.expose()));
    assert_eq!(branchyard_domain_testing::fakes::OpenVault.open(hook.id, &hook.secret).unwrap(), secret);
    assert_eq!(world.hub.hooks().list(&world.admin(), None, 9).unwrap(), [world.view(hook.id)]);

    world.fakes.clock.advance_seconds(1);
    let same = world.edit_hook(hook.id, EditHook { active: Some(true), ..EditHook::default() });
    assert_eq!(same.hook, hook, "nothing to change");
    let url = "https://elsewhere.test/";
    let address = world.hub.hooks().address(&world.admin(), url).unwrap();
    let edited = world.edit_hook(hook.id, EditHook { url: Some(address), ..EditHook::default() }).hook;
    assert_eq!((edited.url.as_str(), edited.events), (url, hook.events.clone()));
    assert!(edited.updated_at > hook.updated_at);
    let off = EditHook { active: Some(false), events: Some([HookEvent::PullRequest].into()), url: None };
    let off = world.edit_hook(hook.id, off).hook;
    assert_eq!((off.active, off.disabled_reason), (false, None), "somebody wanted it so");

    let hooks = world.hub.hooks();
    let stale = hooks.delete(&world.admin(), hook.id, Some(&|view| view.hook.active));
    assert!(matches!(stale, Err(HookError::Changed)));
    assert_eq!(hooks.delete(&world.admin(), hook.id, None).unwrap().hook, off);
    assert!(matches!(hooks.get(&world.admin(), hook.id), Err(HookError::NoSuchHook)));
    assert!(matches!(hooks.edit(&world.admin(), hook.id, EditHook::default(), None), Err(HookError::NoSuchHook)));
    assert!(matches!(hooks.ping(&world.admin(), hook.id, None), Err(HookError::NoSuchHook)));
    assert!(matches!(hooks.rotate_secret(&world.admin(), hook.id, None), Err(HookError::NoSuchHook)));
}

#[test]
fn what_cannot_be_registered() {
    let world = world_with(Limits { hooks_per_database: 2, ..Limits::default() });
    let push = [HookEvent::Push];
    assert!(matches!(world.hook_to("ftp://x/", &push), Err(HookError::Address(AddressError::Invalid(_)))));
    assert!(matches!(world.hook_to("https://127.0.0.1/", &push), Err(HookError::Address(AddressError::Refused(_)))));
    let first = world.hook_to(URL, &push).unwrap().view.hook.id;
    let second = world.hook_to(URL, &push).unwrap().view.hook.id;
    assert_ne!(first, second, "the same address twice is two hooks");
    assert!(matches!(world.hook_to(URL, &push), Err(HookError::TooMany(2))));
    world.hub.hooks().delete(&world.admin(), first, None).unwrap();
    world.hook_to(URL, &push).unwrap();
    create(&world.hub, &world.ada, ("ada", "other"), Visibility::Public);
    let elsewhere = world.access_to::<Admin>(&world.ada, ("ada", "other"));
    assert!(matches!(world.hub.hooks().get(&elsewhere, second), Err(HookError::NoSuchHook)));
}

#[test]
fn a_request_that_is_repeated_registers_once() {
    let world = world();
    let render = |made: &SecretHook| made.view.hook.id.to_string().into_bytes();
    let once = IdempotencyRecord {
        caller: user(&world.ada).id,
        scope: "s".into(),
        key: "k".into(),
        request_hash: [1; 32],
        render: &render,
    };
    let address = || world.hub.hooks().address(&world.admin(), URL).unwrap();
    let wanted = || NewHook { url: address(), events: [HookEvent::Push].into(), active: true };
    let made = world.hub.hooks().create(&world.admin(), wanted(), Some(&once)).unwrap();
    world.hub.hooks().create(&world.admin(), wanted(), Some(&once)).unwrap_err();
    let saved = world.hub.databases().saved_answer(user(&world.ada).id, "s", "k").unwrap().unwrap();
    assert_eq!(saved.answer, made.view.hook.id.to_string().into_bytes());
    assert_eq!(world.hub.hooks().list(&world.admin(), None, 9).unwrap().len(), 1);
}

#[test]
fn events_reach_the_hooks_that_want_them_in_order() {
    let world = world();
    let branch = world.hooked();
    let push = world.hook_to("https://push.test/", &[HookEvent::Push]).unwrap().view.hook.id;
    let off = world.hook_to("https://off.test/", &[HookEvent::Branch]).unwrap().view.hook.id;
    world.edit_hook(off, EditHook { active: Some(false), ..EditHook::default() });
    world.branches(&["a", "b", "c"]);
    world.wrote("a", "INSERT INTO t VALUES (2,'two')");
    assert!(world.hub.dispatch().is_due(room(9, 9)).unwrap());
    assert_eq!(world.deliver(), 4);
    assert!(!world.hub.dispatch().is_due(room(9, 9)).unwrap());
    let sent = world.fakes.sender.sent();
    let to = |url: &str| sent.iter().filter(|parcel| parcel.url == url).collect::<Vec<_>>();
    let told: Vec<&str> = to(URL).iter().map(|parcel| parcel.body.as_str()).collect();
    assert_eq!(told.len(), 3);
    for (body, name) in told.iter().zip(["a", "b", "c"]) {
        assert!(body.contains("BranchCreated") && body.contains(&format!("\"{name}\"")), "{body}");
    }
    assert!(to(URL).windows(2).all(|pair| pair[0].delivery < pair[1].delivery), "ids sort by event");
    let [pushed] = to("https://push.test/")[..] else { panic!() };
    assert_eq!(pushed.event, EventName::Push);
    assert!(to("https://off.test/").is_empty());
    assert!(matches!(world.last(push).status, DeliveryStatus::Delivered { .. }));
    let log = world.hub.deliveries().get(&world.admin(), branch, world.last(branch).id).unwrap();
    assert_eq!((log.attempts.len(), log.attempts[0].response_status), (1, Some(200)));
    assert_eq!(log.request.headers.len(), 1);
    // A hook that is activated later receives only later events.
    world.edit_hook(off, EditHook { active: Some(true), ..EditHook::default() });
    assert_eq!(world.deliver(), 0);
    world.branches(&["d"]);
    assert_eq!(world.deliver(), 2);
}

#[test]
fn ids_go_up_also_when_the_clock_goes_back() {
    let world = world();
    let hook = world.hooked();
    world.branches(&["a"]);
    world.deliver();
    let first = world.last(hook).id;
    world.fakes.clock.advance_seconds(-3_600);
    world.branches(&["b"]);
    world.deliver();
    assert!(world.last(hook).id > first);
    let pinged = world.hub.hooks().ping(&world.admin(), hook, None).unwrap().delivery.id;
    assert_eq!(world.last(hook).id, pinged);
    assert!(pinged > first);
}

#[test]
fn a_failure_is_tried_again_on_schedule_and_given_up_at_last() {
    let world = world();
    let hook = world.hooked();
    world.plan(&ScriptedSender::answer(500), 9);
    world.plan(&refused(AttemptError::Timeout), 1);
    world.branches(&["a"]);
    assert_eq!(world.deliver(), 1);
    for planned in [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400] {
        let waited = world.next_attempt(hook);
        assert!((planned * 4 / 5 - 1..=planned * 6 / 5).contains(&waited), "{waited} for {planned}");
    }
    let delivery = world.last(hook);
    assert!(matches!(delivery.status, DeliveryStatus::Failed { .. }));
    assert_eq!((delivery.attempt_count, delivery.run_attempts), (10, 10));
    let sent = world.fakes.sender.sent();
    let ids: BTreeSet<DeliveryId> = sent.iter().map(|parcel| parcel.delivery).collect();
    let attempts: BTreeSet<_> = sent.iter().map(|parcel| parcel.attempt).collect();
    let bodies: BTreeSet<&str> = sent.iter().map(|parcel| parcel.body.as_str()).collect();
    assert_eq!((ids.len(), attempts.len(), bodies.len()), (1, 10, 1));
    let log = world.hub.deliveries().get(&world.admin(), hook, delivery.id).unwrap();
    assert_eq!(log.attempts.len(), 10);
    assert_eq!(log.attempts[9].error, Some(AttemptError::Timeout));
    assert!(world.view(hook).hook.active, "not five days yet");
}

#[test]
fn a_receiver_can_ask_for_patience() {
    let world = world();
    let hook = world.hooked();
    let mut busy = ScriptedSender::answer(503);
    busy.reply.as_mut().unwrap().retry_after = Some(RetryAfter::Seconds(600));
    world.plan(&busy, 1);
    world.branches(&["a"]);
    world.deliver();
    assert_eq!(world.next_attempt(hook), 600);
    assert!(matches!(world.last(hook).status, DeliveryStatus::Delivered { .. }));
}

#[test]
fn receivers_see_the_time_of_the_machine_also_after_its_clock_was_set_back() {
    const BACK: i64 = 3 * 3_600;
    let world = world();
    let hook = world.hooked();
    world.fakes.clock.set_machine_back_seconds(BACK);
    let (now, machine) = (world.hub.now(), world.hub.now().plus_seconds(-BACK));
    let mut busy = ScriptedSender::answer(503);
    busy.reply.as_mut().unwrap().retry_after = Some(RetryAfter::At(machine.plus_seconds(600)));
    world.plan(&busy, 1);
    world.branches(&["a"]);
    world.deliver();
    assert_eq!(world.fakes.sender.sent()[0].at, machine);
    let log = world.hub.deliveries().get(&world.admin(), hook, world.last(hook).id).unwrap();
    assert_eq!(log.attempts[0].started_at, now, "the log follows the clock of the server");
    assert_eq!(world.next_attempt(hook), 600, "a date is compared with the clock that the receiver has");
}

#[test]
fn a_retry_does_not_hold_back_what_comes_later() {
    let world = world();
    let hook = world.hooked();
    world.plan(&ScriptedSender::answer(500), 1);
    world.branches(&["a"]);
    world.deliver();
    world.branches(&["b"]);
    assert_eq!(world.deliver(), 1);
    let list = world.hub.deliveries().list(&world.admin(), hook, None, None, 9).unwrap();
    assert_eq!(list.iter().map(Delivery::is_pending).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn what_happened_before_a_hook_listened_is_not_told_to_it() {
    let world = world();
    // Each event still waits in the outbox when the hook is registered, deactivated and activated again.
    world.branches(&["a"]);
    let hook = world.hook_to(URL, &[HookEvent::Branch]).unwrap().view.hook.id;
    world.branches(&["b"]);
    let switch = |on| world.edit_hook(hook, EditHook { active: Some(on), ..EditHook::default() });
    switch(false);
    world.branches(&["c"]);
    switch(true);
    assert_eq!(world.deliver(), 0);
    let list = world.hub.deliveries().list(&world.admin(), hook, None, None, 9).unwrap();
    assert_eq!(list.len(), 1, "only what happened while it listened");
    assert!(matches!(list[0].status, DeliveryStatus::Failed { .. }), "and that was given up");
    world.branches(&["d"]);
    assert_eq!(world.deliver(), 1);
}

#[test]
fn who_is_gone_is_not_asked_again() {
    let world = world();
    let hook = world.hooked();
    world.plan(&ScriptedSender::answer(410), 1);
    world.branches(&["a", "b"]);
    while !world.hub.dispatch().fan_out().unwrap().is_empty() {}
    let gone = world
        .hub
        .dispatch()
        .attempt(lease(&world, "w").pop().unwrap(), &CancellationToken::default(), || true)
        .unwrap();
    let turn = world.hub.dispatch().turn("w", &[gone], room(9, 9)).unwrap();
    assert_eq!(turn.disabled, [(hook, DisabledReason::Gone)]);
    assert!(turn.leases.is_empty(), "what else was on its way is given up");
    let view = world.view(hook);
    assert_eq!((view.hook.active, view.hook.disabled_reason), (false, Some(DisabledReason::Gone)));
    let list = world.hub.deliveries().list(&world.admin(), hook, None, None, 9).unwrap();
    assert!(list.iter().all(|delivery| matches!(delivery.status, DeliveryStatus::Failed { .. })));
    world.branches(&["c"]);
    assert_eq!(world.deliver(), 0);
    let on = world.edit_hook(hook, EditHook { active: Some(true), ..EditHook::default() }).hook;
    assert_eq!((on.disabled_reason, on.failing_since), (None, None));
    world.branches(&["d"]);
    assert_eq!(world.deliver(), 1);
}

#[test]
fn five_days_of_nothing_but_failures_switch_a_hook_off() {
    let run = |one_success: bool| {
        let world = world();
        let hook = world.hooked();
        world.branches(&["b0"]);
        world.plan(&ScriptedSender::answer(500), 10);
        world.deliver();
        for _ in 0..9 {
            world.next_attempt(hook);
        }
        // More than three days have passed, and one delivery has used up its attempts.
        assert!(world.view(hook).hook.exhausted && world.view(hook).hook.active);
        if one_success {
            world.branches(&["good"]);
            world.deliver();
            assert_eq!(world.view(hook).hook.failing_since, None);
        }
        world.fakes.clock.advance_seconds(3 * 86_400);
        world.plan(&ScriptedSender::answer(500), 1);
        world.branches(&["late"]);
        world.deliver();
        world.view(hook).hook
    };
    let hook = run(false);
    assert_eq!((hook.active, hook.disabled_reason), (false, Some(DisabledReason::Failing)));
    assert!(run(true).active);
}

#[test]
fn failures_alone_do_not_switch_off_while_no_delivery_is_used_up() {
    let delays = vec![0, 100 * 86_400 * 1_000];
    let world = world_with(Limits { hook_retry_delays_ms: delays, ..Limits::default() });
    let hook = world.hooked();
    world.plan(&ScriptedSender::answer(500), 2);
    world.branches(&["a"]);
    world.deliver();
    world.fakes.clock.advance_seconds(6 * 86_400);
    world.branches(&["b"]);
    world.deliver();
    assert!(world.view(hook).hook.active);
}

#[test]
fn a_ping_reaches_a_hook_that_is_off_once() {
    let world = world();
    let hook = world.hooked();
    world.edit_hook(hook, EditHook { active: Some(false), ..EditHook::default() });
    world.plan(&ScriptedSender::answer(410), 1);
    let queued = world.hub.hooks().ping(&world.admin(), hook, None).unwrap();
    assert_eq!((queued.request.url.as_str(), queued.request.headers.len(), queued.attempts.len()), (URL, 0, 0));
    assert!(queued.body.contains("Ping"));
    assert_eq!(world.deliver(), 1);
    assert!(matches!(world.last(hook).status, DeliveryStatus::Failed { .. }), "one attempt");
    world.edit_hook(hook, EditHook { active: Some(true), ..EditHook::default() });
    world.plan(&ScriptedSender::answer(410), 1);
    world.hub.hooks().ping(&world.admin(), hook, None).unwrap();
    world.deliver();
    let view = world.view(hook).hook;
    assert_eq!((view.active, view.failing_since, view.exhausted), (true, None, false), "a trial has no consequences");
    let last = world.last(hook).id;
    world.plan(&ScriptedSender::answer(500), 1);
    world.hub.deliveries().redeliver(&world.admin(), hook, last, None).unwrap();
    assert_eq!(world.deliver(), 1);
    assert!(!world.last(hook).is_pending(), "sent again, it has one attempt too");
}

#[test]
fn sending_again_keeps_id_and_body() {
    let world = world();
    let hook = world.hooked();
    world.branches(&["a"]);
    world.plan(&ScriptedSender::answer(410), 1);
    world.deliver();
    let delivery = world.last(hook);
    let again = world.hub.deliveries().redeliver(&world.admin(), hook, delivery.id, None).unwrap();
    assert!(again.delivery.is_pending());
    let twice = world.hub.deliveries().redeliver(&world.admin(), hook, delivery.id, None);
    assert!(matches!(twice, Err(HookError::StillPending)));
    world.plan(&ScriptedSender::answer(500), 1);
    assert_eq!(world.deliver(), 1, "the hook is off, and gets it all the same");
    assert!(world.last(hook).is_pending(), "a whole run");
    world.next_attempt(hook);
    let done = world.last(hook);
    assert_eq!((done.attempt_count, done.run_attempts), (3, 2));
    let sent = world.fakes.sender.sent();
    assert!(sent.iter().all(|parcel| parcel.delivery == delivery.id && parcel.body == sent[0].body));
    let unknown = DeliveryId::from_uuid(world.fakes.ids.uuid(world.hub.now()));
    let missing = world.hub.deliveries().redeliver(&world.admin(), hook, unknown, None);
    assert!(matches!(missing, Err(HookError::NoSuchDelivery)));
}

#[test]
fn two_secrets_for_a_day() {
    let world = world();
    let SecretHook { view, secret: first } = world.hook_to(URL, &[HookEvent::Branch]).unwrap();
    let hook = view.hook.id;
    let secrets = |world: &DomainHarness, name: &str| {
        world.branches(&[name]);
        world.deliver();
        world.fakes.sender.sent().pop().unwrap().secrets
    };
    assert_eq!(secrets(&world, "a"), std::slice::from_ref(&first));
    let rotate = || world.hub.hooks().rotate_secret(&world.admin(), hook, None).unwrap().secret;
    let second = rotate();
    assert_eq!(secrets(&world, "b"), [second.clone(), first]);
    let third = rotate();
    assert_eq!(secrets(&world, "c"), [third.clone(), second.clone()], "never more than two");
    world.fakes.clock.advance_seconds(86_399);
    assert_eq!(secrets(&world, "d"), [third.clone(), second]);
    world.fakes.clock.advance_seconds(1);
    assert_eq!(secrets(&world, "e"), [third]);
}

fn lease(world: &DomainHarness, holder: &str) -> Vec<Lease> {
    world.hub.dispatch().turn(holder, &[], room(9, 9)).unwrap().leases
}

#[test]
fn who_lost_the_lease_changes_nothing() {
    let world = world();
    let hook = world.hooked();
    world.branches(&["a", "b"]);
    world.hub.dispatch().fan_out().unwrap();
    let slow = lease(&world, "slow").pop().unwrap();
    assert!(lease(&world, "other").is_empty(), "one attempt at a time");
    world.fakes.clock.advance_seconds(29);
    assert!(lease(&world, "other").is_empty());
    world.fakes.clock.advance_seconds(1);
    let taken_over = lease(&world, "other").pop().unwrap();
    let first = taken_over.deliveries[0].delivery.id;
    assert_eq!(slow.deliveries[0].delivery.id, first, "the same id");
    // No attempt is made that the lease does not cover to its end.
    let late = world.hub.dispatch().attempt(slow.clone(), &CancellationToken::default(), || true).unwrap();
    assert!(late.attempted.is_empty());
    assert!(world.fakes.sender.sent().is_empty());
    // An attempt that was under way when the lease expired is reported too late.
    let late = Run {
        lease: slow,
        attempted: world
            .hub
            .dispatch()
            .attempt(taken_over.clone(), &CancellationToken::default(), || true)
            .unwrap()
            .attempted,
    };
    assert!(world.hub.dispatch().turn("slow", &[late], room(9, 9)).unwrap().leases.is_empty());
    let log = |id| world.hub.deliveries().get(&world.admin(), hook, id).unwrap();
    assert!(log(first).attempts.is_empty());
    let once = std::cell::Cell::new(true);
    let done = world.hub.dispatch().attempt(taken_over, &CancellationToken::default(), || once.replace(false)).unwrap();
    assert_eq!(world.hub.dispatch().turn("other", &[done], room(9, 9)).unwrap().leases.len(), 1, "the next one");
    assert_eq!(log(first).attempts.len(), 1);
    assert_eq!(world.hub.dispatch().recover("other").unwrap(), 1);
    assert_eq!(world.deliver(), 1);
}

#[test]
fn attempts_to_a_hook_share_a_lease_while_they_succeed() {
    let world = world();
    let hook = world.hooked();
    world.branches(&["a", "b", "c", "d"]);
    world.hub.dispatch().fan_out().unwrap();
    for status in [200, 204, 500] {
        world.plan(&ScriptedSender::answer(status), 1);
    }
    let leased = lease(&world, "w").pop().unwrap();
    let ids: Vec<DeliveryId> = leased.deliveries.iter().map(|due| due.delivery.id).collect();
    assert!(ids.is_sorted() && ids.len() == 4, "by event");
    let done = world.hub.dispatch().attempt(leased, &CancellationToken::default(), || true).unwrap();
    assert_eq!(done.attempted.iter().map(|attempted| attempted.delivery).collect::<Vec<_>>(), ids[..3]);
    let turn = world.hub.dispatch().turn("w", &[done], room(9, 0)).unwrap();
    assert!(turn.leases.is_empty(), "it fails now, and there is no place for such hooks");
    let list = world.hub.deliveries().list(&world.admin(), hook, None, None, 9).unwrap();
    assert_eq!(list.iter().rev().map(Delivery::is_pending).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!(list.iter().rev().map(|delivery| delivery.attempt_count).collect::<Vec<_>>(), [1, 1, 1, 0]);
    let alone = lease(&world, "w").pop().unwrap();
    assert_eq!(
        alone.deliveries.iter().map(|due| due.delivery.id).collect::<Vec<_>>(),
        ids[3..],
        "what was not begun is next"
    );
}

#[test]
fn attempts_that_are_cut_short_are_handed_back() {
    let world = world();
    let hook = world.hooked();
    world.branches(&["a"]);
    world.hub.dispatch().fan_out().unwrap();
    let leased = lease(&world, "w").pop().unwrap();
    world.hub.dispatch().abort();
    let done = world.hub.dispatch().attempt(leased, &CancellationToken::default(), || true).unwrap();
    assert!(done.attempted.is_empty());
    assert!(world.hub.dispatch().turn("w", &[done], room(0, 0)).unwrap().leases.is_empty());
    assert!(world.last(hook).is_pending());
    assert_eq!((world.last(hook).attempt_count, lease(&world, "other").len()), (0, 1), "anybody may go on at once");
}

#[test]
fn a_lost_save_repeats_the_attempt_under_its_id() {
    let world = world();
    let hook = world.hooked();
    world.branches(&["a"]);
    world.hub.dispatch().fan_out().unwrap();
    let leased = lease(&world, "w").pop().unwrap();
    let done = world.hub.dispatch().attempt(leased, &CancellationToken::default(), || true).unwrap();
    world.fakes.metadata.fail_after(0, 1, branchyard_domain_testing::fakes::SaveFault::Lost);
    world.hub.dispatch().turn("w", std::slice::from_ref(&done), room(9, 9)).unwrap_err();
    assert!(world.last(hook).is_pending());
    world.hub.dispatch().turn("w", &[done], room(9, 9)).unwrap();
    assert!(!world.last(hook).is_pending(), "the result was kept and told again");
}

#[test]
fn a_hook_that_goes_while_it_is_asked() {
    let world = world();
    let hook = world.hooked();
    world.branches(&["a"]);
    world.hub.dispatch().fan_out().unwrap();
    let leased = lease(&world, "w").pop().unwrap();
    world.edit_hook(hook, EditHook { active: Some(false), ..EditHook::default() });
    assert!(!world.last(hook).is_pending());
    let done = world.hub.dispatch().attempt(leased, &CancellationToken::default(), || true).unwrap();
    world.hub.dispatch().turn("w", &[done], room(9, 9)).unwrap();
    assert!(matches!(world.last(hook).status, DeliveryStatus::Delivered { .. }), "the receiver has it");

    world.edit_hook(hook, EditHook { active: Some(true), ..EditHook::default() });
    world.branches(&["b"]);
    world.hub.dispatch().fan_out().unwrap();
    let done = world
        .hub
        .dispatch()
        .attempt(lease(&world, "w").pop().unwrap(), &CancellationToken::default(), || true)
        .unwrap();
    world.hub.hooks().delete(&world.admin(), hook, None).unwrap();
    assert!(world.hub.dispatch().turn("w", &[done], room(9, 9)).unwrap().leases.is_empty());
}

#[test]
fn the_log_keeps_fifty_attempts_and_thirty_days() {
    let world = world_with(Limits { hook_retry_delays_ms: vec![0; 60], ..Limits::default() });
    let hook = world.hooked();
    world.plan(&ScriptedSender::answer(500), 60);
    world.branches(&["a"]);
    assert_eq!(world.deliver(), 60);
    let delivery = world.last(hook);
    let log = world.hub.deliveries().get(&world.admin(), hook, delivery.id).unwrap();
    assert_eq!((log.delivery.attempt_count, log.attempts.len()), (60, 50));
    assert_eq!(log.attempts.last().unwrap().id, world.fakes.sender.sent().pop().unwrap().attempt, "the latest");
    world.fakes.clock.advance_seconds(30 * 86_400);
    world.hub.dispatch().tidy().unwrap();
    assert_eq!(world.last(hook), delivery, "thirty days, and not more");
    world.fakes.clock.advance_seconds(1);
    world.hub.dispatch().tidy().unwrap();
    assert_eq!(world.view(hook).last_delivery, None);
    assert_eq!(world.events(), [""; 0], "the event went with it");
}

#[test]
fn a_deleted_database_takes_its_hooks_along() {
    let world = world();
    world.hooked();
    world.branches(&["a"]);
    world.hub.dispatch().fan_out().unwrap();
    world.branches(&["b"]);
    world.hub.databases().delete(&world.admin(), None).unwrap();
    assert_eq!(world.deliver(), 0);
    assert!(world.transaction().hooks().list(world.db, None, 9).unwrap().is_empty());
    assert_eq!(world.events(), [""; 0]);
}

#[test]
fn a_fork_has_no_hooks() {
    let world = world();
    world.hooked();
    let ben = world.access(&world.ben);
    world.hub.operations().fork(&ben, "ben", None).unwrap();
    world.work();
    let fork = world.access_to::<Admin>(&world.ben, ("ben", crate::harness::DB.1));
    assert!(world.hub.hooks().list(&fork, None, 9).unwrap().is_empty());
}

#[test]
fn hooks_that_fail_leave_places_to_those_that_work() {
    let world = world();
    while !world.hub.dispatch().fan_out().unwrap().is_empty() {}
    let hooks: Vec<HookId> = (0..6)
        .map(|n| world.hook_to(&format!("https://h{n}.test/"), &[HookEvent::Branch]).unwrap().view.hook.id)
        .collect();
    let mut tx = world.fakes.metadata.write(&WriteKeys::any()).unwrap();
    for id in &hooks[..5] {
        let mut hook = tx.hooks().get(world.db, *id).unwrap().unwrap();
        hook.failed(Timestamp::from_seconds(0), false, i64::MAX);
        tx.hooks().update(&hook).unwrap();
    }
    tx.commit(Durability::Synced).unwrap();
    world.branches(&["a"]);
    world.hub.dispatch().fan_out().unwrap();
    let leases = world.hub.dispatch().turn("w", &[], room(4, 2)).unwrap().leases;
    assert_eq!(leases.len(), 3);
    assert!(leases.iter().any(|lease| lease.hook.id == hooks[5]));
}

#[test]
fn an_attempt_cut_short_is_due_as_before_and_a_slow_hook_waits_for_a_place() {
    let world = world();
    let hook = world.hooked();
    world.branches(&["a"]);
    world.hub.dispatch().fan_out().unwrap();
    let (leased, canceled) = (lease(&world, "w").pop().unwrap(), CancellationToken::default());
    canceled.cancel();
    let cut = world.hub.dispatch().attempt(leased, &canceled, || true).unwrap();
    assert!(cut.attempted.is_empty() && world.fakes.sender.sent().is_empty());
    let slow = [hook];
    let room = |held_back| Room { hooks: 9, held_back, slow: &slow };
    assert!(world.hub.dispatch().turn("w", &[cut], room(0)).unwrap().leases.is_empty());
    assert!(!world.hub.dispatch().is_due(room(0)).unwrap());
    assert!(world.hub.dispatch().is_due(room(1)).unwrap());
    assert_eq!(world.hub.dispatch().turn("w", &[], room(1)).unwrap().leases.len(), 1);
}

/// Returns the key ids of a hook's secrets, the present one first.
fn keys(view: &HookView) -> Vec<String> {
    let previous = view.hook.previous_secret.iter().map(|previous| &previous.secret);
    std::iter::once(&view.hook.secret).chain(previous).map(|sealed| sealed.key_id.clone()).collect()
}

/// A hub whose vault has the keys `names`, over the stores of `world`.
fn keyed(world: &DomainHarness, names: &[&str]) -> (branchyard_domain::Hub, std::sync::Arc<KeyedVault>) {
    let vault = std::sync::Arc::new(KeyedVault::default());
    vault.set(names);
    let limits = Limits { hooks_per_database: 200, ..Limits::default() };
    (world.fakes.sealing(vault.clone(), limits), vault)
}

#[test]
fn secrets_stay_readable_wherever_sealing_anew_is_interrupted() {
    const HOOKS: usize = 120;
    for fault in [SaveFault::Lost, SaveFault::Unheard] {
        for saves in 0..3 {
            let world = world();
            let (hub, vault) = keyed(&world, &["old"]);
            let url = hub.hooks().address(&world.admin(), URL).unwrap();
            let wanted = NewHook { url, events: [HookEvent::Branch].into(), active: true };
            let register = || hub.hooks().create(&world.admin(), wanted.clone(), None).unwrap();
            let mut made: Vec<_> = (0..HOOKS).map(|_| register()).collect();
            made[7] = hub.hooks().rotate_secret(&world.admin(), made[7].view.hook.id, None).unwrap();

            vault.set(&["new", "old"]);
            world.fakes.metadata.fail_after(saves, 1, fault);
            hub.secrets().reseal(|| true).unwrap_err();
            let is_whole = || {
                made.iter().all(|made| {
                    let hook = world.view(made.view.hook.id).hook;
                    vault.open(hook.id, &hook.secret).as_ref() == Some(&made.secret)
                })
            };
            assert!(is_whole(), "after {saves} transactions");
            let kept = saves * 50 + if fault == SaveFault::Unheard { 50 } else { 0 };
            let left = HOOKS.saturating_sub(kept);
            let outcome = hub.secrets().reseal(|| true).unwrap();
            assert_eq!(outcome, ResealOutcome { resealed: u64::try_from(left).unwrap(), unreadable: 0 });
            vault.set(&["new"]);
            assert!(is_whole());
            assert_eq!(keys(&world.view(made[7].view.hook.id)), ["new", "new"]);
            let counted = hub.secrets().counts().unwrap();
            assert_eq!(hub.secrets().with_counts(<[_]>::to_vec).unwrap(), counted);
            assert_eq!(counted, [("new".to_owned(), u64::try_from(HOOKS).unwrap())]);
            assert_eq!(hub.secrets().reseal(|| true).unwrap(), ResealOutcome::default());
        }
    }
}

#[test]
fn sealing_anew_changes_nothing_else_and_stops_when_asked() {
    let world = world();
    let (hub, vault) = keyed(&world, &["old"]);
    let url = hub.hooks().address(&world.admin(), URL).unwrap();
    let wanted = NewHook { url, events: [HookEvent::Branch].into(), active: true };
    let before = hub.hooks().create(&world.admin(), wanted, None).unwrap().view.hook;
    vault.set(&["new", "old"]);
    assert_eq!(hub.secrets().reseal(|| false).unwrap(), ResealOutcome::default());
    assert_eq!(world.view(before.id).hook, before);
    world.fakes.clock.advance_seconds(5);
    assert_eq!(hub.secrets().reseal(|| true).unwrap(), ResealOutcome { resealed: 1, unreadable: 0 });
    let after = world.view(before.id).hook;
    assert_ne!(after.secret, before.secret);
    assert_eq!(branchyard_domain::entities::Hook { secret: before.secret.clone(), ..after }, before);
}

/// The keys are lost, as after a restore without them.
#[test]
fn a_hook_whose_key_is_lost_waits_until_its_secret_is_rotated() {
    let world = world();
    while !world.hub.dispatch().fan_out().unwrap().is_empty() {}
    let (hub, vault) = keyed(&world, &["lost"]);
    let url = hub.hooks().address(&world.admin(), URL).unwrap();
    let wanted = NewHook { url, events: [HookEvent::Branch].into(), active: true };
    let hook = hub.hooks().create(&world.admin(), wanted, None).unwrap().view.hook.id;
    vault.set(&["new"]);
    assert_eq!(hub.secrets().reseal(|| true).unwrap(), ResealOutcome { resealed: 0, unreadable: 1 });
    let lost = UnreadableHook { database: world.admin().database().locator.clone(), hook };
    assert_eq!(hub.secrets().unreadable().unwrap(), [lost]);

    world.branches(&["a"]);
    let dispatch = hub.dispatch();
    while !dispatch.fan_out().unwrap().is_empty() {}
    let attempt = || {
        let lease = dispatch.turn("w", &[], room(9, 9)).unwrap().leases.remove(0);
        dispatch.attempt(lease, &CancellationToken::default(), || true)
    };
    assert!(attempt().is_none());
    assert!(world.last(hook).is_pending() && world.fakes.sender.sent().is_empty());

    let rotated = hub.hooks().rotate_secret(&world.admin(), hook, None).unwrap();
    assert_eq!(keys(&rotated.view), ["new"], "a previous secret that cannot be opened is dropped");
    assert_eq!(hub.secrets().unreadable().unwrap(), []);
    world.fakes.clock.advance_seconds(3_600);
    let run = attempt().unwrap();
    dispatch.turn("w", &[run], room(0, 0)).unwrap();
    assert_eq!(world.fakes.sender.sent()[0].secrets, [rotated.secret]);

    // The key of the previous secret is lost later.
    let again = hub.hooks().rotate_secret(&world.admin(), hook, None).unwrap();
    assert_eq!(keys(&again.view), ["new", "new"]);
    vault.set(&["newest", "new"]);
    let newest = hub.hooks().rotate_secret(&world.admin(), hook, None).unwrap();
    vault.set(&["newest"]);
    world.branches(&["b"]);
    while !dispatch.fan_out().unwrap().is_empty() {}
    attempt().unwrap();
    assert_eq!(world.fakes.sender.sent()[1].secrets, [newest.secret]);
}
