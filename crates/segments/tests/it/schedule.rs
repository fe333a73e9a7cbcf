//! One schedule: three nodes, their clients, and a scheduler that decides by a seed which of them goes on, and what fails.

use crate::engine::{Hash, ROOT};
use crate::node::{Node, Reply, Wait};
use crate::ports::{Disk, Shared};
use crate::world::{Counts, Faults, LEASE, NODES, World};
use branchyard_segments::State;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

/// How a schedule ended.
pub(crate) struct Report {
    /// A number that two schedules share only if all of their steps are the same.
    pub(crate) fingerprint: u64,
    pub(crate) steps: u64,
    pub(crate) counts: Counts,
    /// What must not happen, and happened.
    pub(crate) violation: Option<String>,
}

struct Task {
    node: usize,
    /// Whether it ends with its reply.
    is_request: bool,
    future: Pin<Box<dyn Future<Output = ()>>>,
    wait: Wait,
}

#[derive(Debug, Clone)]
enum Request {
    Write(Vec<u32>),
    Side(u32),
    Read,
    Tag,
    Check,
    Drain,
    Compact,
    Collect,
    Found,
}

/// A client, which sends one request after the other.
struct Client {
    left: u32,
    current: Option<Running>,
    /// A write to repeat, because it certainly was not done.
    again: Option<(Request, Option<usize>, u32)>,
}

struct Running {
    request: Request,
    reply: Rc<RefCell<Option<Reply>>>,
    deadline: u64,
    /// The number of ids that were known to be there when the request was sent.
    seen: usize,
    attempts: u32,
}

struct Schedule {
    world: Shared,
    nodes: Vec<Rc<Node>>,
    disks: Vec<Rc<Disk>>,
    /// The time until which a node does nothing.
    frozen: Vec<u64>,
    tasks: Vec<Task>,
    clients: Vec<Client>,
    wait: Rc<Cell<Wait>>,
    next_id: u32,
    /// Whether clients wait for as long as it takes: before the faults begin, and after they ended.
    is_patient: bool,
    fingerprint: u64,
    steps: u64,
}

/// Runs the schedule of a seed.
pub(crate) fn run(seed: u64) -> Report {
    let mut schedule = Schedule::new(seed);
    schedule.play();
    let world = schedule.world.borrow();
    Report {
        fingerprint: schedule.fingerprint,
        steps: schedule.steps,
        counts: world.counts,
        violation: world.violation.clone(),
    }
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let world = Rc::new(RefCell::new(World::new(seed)));
        let wait = Rc::new(Cell::new(Wait::Nothing));
        let disks: Vec<_> = (0..NODES).map(|_| Rc::new(Disk::default())).collect();
        let nodes =
            (0..NODES).map(|index| Rc::new(Node::new(&world, index, disks[index].clone(), None, &wait))).collect();
        let mut schedule = Self {
            world,
            nodes,
            disks,
            frozen: vec![0; NODES + 1],
            tasks: Vec::new(),
            clients: Vec::new(),
            wait,
            next_id: 1,
            is_patient: true,
            fingerprint: 0,
            steps: 0,
        };
        for node in 0..NODES {
            schedule.keep_lease(node);
        }
        schedule
    }

    fn play(&mut self) {
        self.clients.push(Client { left: 0, current: None, again: Some((Request::Found, Some(0), 0)) });
        self.until_idle(500);
        if self.world.borrow().history.is_empty() {
            self.world.borrow_mut().violate(|| "the database could not be made".to_owned());
        }
        self.clients.clear();
        let clients = {
            let mut world = self.world.borrow_mut();
            world.faults = faults(&mut world);
            2 + world.random.below(3)
        };
        self.is_patient = false;
        for _ in 0..clients {
            let left = 2 + self.random(5) as u32;
            self.clients.push(Client { left, current: None, again: None });
        }
        self.until_idle(2_500);
        self.heal();
        self.check_end();
    }

    fn random(&self, below: u64) -> u64 {
        self.world.borrow_mut().random.below(below)
    }

    fn is_violated(&self) -> bool {
        self.world.borrow().violation.is_some()
    }

    /// Runs until all clients have all replies, or gave up.
    fn until_idle(&mut self, most: u64) {
        for _ in 0..most {
            let is_idle = self
                .clients
                .iter()
                .all(|client| client.left == 0 && client.current.is_none() && client.again.is_none());
            if is_idle || self.is_violated() {
                return;
            }
            self.step();
        }
        for client in &mut self.clients {
            *client = Client { left: 0, current: None, again: None };
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        let pass = self.random(3);
        {
            let mut world = self.world.borrow_mut();
            world.now += pass;
            world.apply_late();
        }
        let fault = self.fault();
        self.collect_replies();
        let now = self.world.borrow().now;
        let ready = |task: &Task| {
            self.frozen[task.node] <= now
                && match task.wait {
                    Wait::Nothing => true,
                    Wait::Turn => self.nodes[task.node].has_free_turn(),
                    Wait::Until(until) => until <= now,
                }
        };
        let tasks = self.tasks.iter().enumerate().filter(|(_, task)| ready(task)).map(|(index, _)| index);
        let sends = |client: &Client| client.current.is_none() && (client.left > 0 || client.again.is_some());
        let clients = self.clients.iter().enumerate().filter(|(_, client)| sends(client));
        let choices: Vec<usize> = tasks.chain(clients.map(|(index, _)| usize::MAX - index)).collect();
        if choices.is_empty() {
            self.pass_time();
            return;
        }
        let choice = choices[self.random(choices.len() as u64) as usize];
        let name = match self.tasks.get(choice) {
            Some(task) => task.node as u64,
            None => 9,
        };
        self.note(&[choice as u64, name, choices.len() as u64, pass, fault]);
        if choice < self.tasks.len() {
            self.poll(choice);
        } else {
            self.send(usize::MAX - choice);
        }
    }

    fn note(&mut self, values: &[u64]) {
        for value in values {
            self.fingerprint = (self.fingerprint ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        }
    }

    /// Goes on to the time at which something happens again.
    fn pass_time(&mut self) {
        let now = self.world.borrow().now;
        let wakes = self.tasks.iter().map(|task| match task.wait {
            Wait::Until(until) => until.max(self.frozen[task.node]),
            Wait::Nothing | Wait::Turn => self.frozen[task.node],
        });
        let deadlines = self.clients.iter().filter_map(|client| Some(client.current.as_ref()?.deadline));
        let late = self.world.borrow().next_late();
        let next = wakes.chain(deadlines).chain(late).filter(|time| *time > now).min();
        self.world.borrow_mut().now = next.unwrap_or(now + 1);
    }

    fn poll(&mut self, index: usize) {
        self.wait.set(Wait::Nothing);
        let task = &mut self.tasks[index];
        let node = task.node;
        let mut context = Context::from_waker(Waker::noop());
        let is_done = task.future.as_mut().poll(&mut context).is_ready();
        task.wait = self.wait.get();
        if is_done {
            drop(self.tasks.swap_remove(index));
        }
        self.check_file(node);
    }

    /// Compares a node's file with the durable bytes.
    fn check_file(&self, node: usize) {
        let node = &self.nodes[node];
        let state = node.status.state();
        let Some(known) = state.known() else {
            return;
        };
        let Some(inode) = self.disks[node.index].inode.borrow().clone() else {
            return;
        };
        if inode.is_damaged.get() {
            return;
        }
        let mut world = self.world.borrow_mut();
        let length = known.length as usize;
        let (bytes, is_longer) = {
            let bytes = inode.bytes.borrow();
            (bytes.get(..length).map(<[u8]>::to_vec), bytes.len() > length)
        };
        if node.has_free_turn() {
            let durable = world.durable.get(known.generation.0 as usize).and_then(|durable| durable.get(..length));
            if bytes.as_deref() != durable {
                world.violate(|| format!("node {} does not have the durable bytes of {state:?}", node.index));
            }
            if is_longer && matches!(state, State::Prefix(_)) {
                world.violate(|| format!("node {} follows, and its file is longer than {state:?}", node.index));
            }
        }
    }

    fn spawn(&mut self, node: usize, is_request: bool, future: impl Future<Output = ()> + 'static) {
        self.tasks.push(Task { node, is_request, future: Box::pin(future), wait: Wait::Nothing });
    }

    fn keep_lease(&mut self, node: usize) {
        let value = self.nodes[node].clone();
        self.spawn(node, false, value.keep_lease());
    }

    /// Sends the next request of a client.
    fn send(&mut self, client: usize) {
        let (request, node, attempts) = match self.clients[client].again.take() {
            Some(again) => again,
            None => {
                self.clients[client].left -= 1;
                (self.request(), None, 0)
            }
        };
        let node = node.unwrap_or_else(|| self.random(NODES as u64) as usize);
        let reply = Rc::new(RefCell::new(None));
        let (value, slot, wanted) = (self.nodes[node].clone(), reply.clone(), request.clone());
        self.spawn(node, true, async move {
            let reply = match wanted {
                Request::Write(ids) => value.write(ids).await,
                Request::Side(id) => value.write_side(id).await,
                Request::Read => value.read().await,
                Request::Tag => value.tag().await,
                Request::Check => value.check().await,
                Request::Drain => value.drain().await,
                Request::Compact => value.compact().await,
                Request::Collect => value.collect().await,
                Request::Found => value.found().await,
            };
            slot.replace(Some(reply));
        });
        let (now, seen) = {
            let world = self.world.borrow();
            (world.now, world.seen)
        };
        let patience = if self.is_patient { u64::MAX / 2 } else { LEASE + self.random(3 * LEASE) };
        let deadline = now + patience;
        self.clients[client].current = Some(Running { request, reply, deadline, seen, attempts });
    }

    fn request(&mut self) -> Request {
        let kind = self.random(100);
        match kind {
            0..36 => {
                let first = self.next_id;
                self.next_id += 1 + self.random(3) as u32;
                Request::Write((first..self.next_id).collect())
            }
            36..58 => Request::Read,
            58..68 => {
                self.next_id += 1;
                Request::Side(self.next_id - 1)
            }
            68..76 => Request::Tag,
            76..80 => Request::Check,
            80..85 => Request::Drain,
            85..90 => Request::Compact,
            _ => Request::Collect,
        }
    }

    fn collect_replies(&mut self) {
        for client in 0..self.clients.len() {
            let now = self.world.borrow().now;
            let Some(running) = &self.clients[client].current else {
                continue;
            };
            let reply = match running.reply.take() {
                Some(reply) => reply,
                None if running.deadline <= now => Reply::Unknown,
                None => continue,
            };
            let Some(running) = self.clients[client].current.take() else {
                continue;
            };
            self.clients[client].again = self.check_reply(running, reply);
        }
    }

    /// Compares a reply with what the oracle knows. Returns the request if it is to be sent again.
    fn check_reply(&mut self, running: Running, reply: Reply) -> Option<(Request, Option<usize>, u32)> {
        let mut world = self.world.borrow_mut();
        match (running.request, reply) {
            (Request::Write(ids), Reply::Done) => {
                world.counts.acknowledged += 1;
                match ids.iter().map(|id| world.history.iter().position(|other| other == id)).next_back().flatten() {
                    Some(place) => world.seen = world.seen.max(place + 1),
                    None => {
                        let what = format!("a write of {ids:?} was acknowledged, and there are {:?}", world.history);
                        world.violate(|| what);
                    }
                }
            }
            (Request::Read, Reply::List(list)) => {
                world.counts.reads += 1;
                if !world.history.starts_with(&list) {
                    let what = format!("a read has {list:?}, and the branch is {:?}", world.history);
                    world.violate(|| what);
                }
                if list.len() < running.seen {
                    let what = format!("a read has {list:?}, and {} ids were there before", running.seen);
                    world.violate(|| what);
                }
                world.seen = world.seen.max(list.len());
            }
            (Request::Found, Reply::Failed(_)) => return Some((Request::Found, Some(0), 0)),
            (request @ (Request::Write(_) | Request::Side(_)), Reply::Failed(node)) if running.attempts < 4 => {
                return Some((request, node, running.attempts + 1));
            }
            _ => {}
        }
        None
    }

    /// Perhaps freezes or crashes a node. Returns a number for what happened.
    fn fault(&mut self) -> u64 {
        let mut world = self.world.borrow_mut();
        let (freeze, crash) = (world.faults.freeze, world.faults.crash);
        let now = world.now;
        if world.random.chance(freeze) {
            let node = world.random.below(NODES as u64) as usize;
            self.frozen[node] = now + 1 + world.random.below(3 * LEASE);
            world.counts.freezes += 1;
            return 1 + node as u64;
        }
        if world.random.chance(crash) {
            let node = world.random.below(NODES as u64) as usize;
            let downtime = world.random.below(LEASE);
            world.counts.crashes += 1;
            drop(world);
            self.crash(node);
            self.frozen[node] = now + downtime;
            return 10 + node as u64;
        }
        let rot = world.faults.rot;
        if world.random.chance(rot) {
            let node = world.random.below(NODES as u64) as usize;
            if let Some(inode) = self.disks[node].inode.borrow().as_ref().filter(|inode| inode.len() > 0) {
                // The last root is what the next writer looks at.
                let first = if world.random.chance(700) { inode.len().saturating_sub(ROOT) } else { 0 };
                let at = first + world.random.below((inode.len() - first) as u64) as usize;
                inode.damage(at, &mut world.random);
                return 20 + node as u64;
            }
        }
        0
    }

    /// Ends all that a node does, at the point where it is. The file stays as it is, or as a power cut leaves it.
    fn crash(&mut self, node: usize) {
        let exact = match self.nodes[node].status.state() {
            State::Prefix(exact) if self.nodes[node].has_free_turn() => Some(exact),
            _ => None,
        };
        self.tasks.retain(|task| task.node != node);
        let old = self.disks[node]
            .inode
            .borrow()
            .as_ref()
            .map(|inode| (inode.bytes.borrow().clone(), inode.is_damaged.get()));
        let disk = Disk::default();
        let mut known = None;
        if let Some((mut bytes, is_damaged)) = old {
            let mut world = self.world.borrow_mut();
            // Some nodes end cleanly.
            known = exact.filter(|_| world.random.chance(500));
            let at = world.random.below(bytes.len() as u64 + 1) as usize;
            match world.random.below(5) {
                _ if known.is_some() => {}
                0 => bytes.truncate(at),
                1 => bytes[at..].fill(0),
                _ => {}
            }
            let inode = crate::engine::Inode::new(bytes);
            inode.is_damaged.set(is_damaged);
            disk.inode.replace(Some(inode));
        }
        self.disks[node] = Rc::new(disk);
        self.nodes[node] = Rc::new(Node::new(&self.world, node, self.disks[node].clone(), known, &self.wait));
        self.keep_lease(node);
    }

    /// Ends all faults, and has everything that is under way arrive.
    fn heal(&mut self) {
        let mut world = self.world.borrow_mut();
        world.faults = Faults::default();
        world.apply_all_late();
        self.frozen.fill(0);
        drop(world);
        self.is_patient = true;
    }

    /// After all faults, writes succeed again, and every node and a new one have exactly what was acknowledged.
    fn check_end(&mut self) {
        if self.is_violated() {
            return;
        }
        // What clients no longer wait for comes to its end, too.
        for _ in 0..5_000 {
            if !self.tasks.iter().any(|task| task.is_request) {
                break;
            }
            self.step();
        }
        if self.tasks.iter().any(|task| task.is_request) {
            self.world.borrow_mut().violate(|| "a request has no end".to_owned());
        }
        let id = self.next_id;
        let mut is_written = false;
        for attempt in 0..40 {
            let node = (attempt % NODES as u64) as usize;
            let request = (Request::Write(vec![id]), Some(node), 4);
            self.clients = vec![Client { left: 0, current: None, again: Some(request) }];
            self.until_idle(20_000);
            is_written = self.world.borrow().history.contains(&id);
            if is_written || self.is_violated() {
                break;
            }
        }
        if !is_written {
            self.world.borrow_mut().violate(|| "no node can write after the faults".to_owned());
        }
        let disk = Rc::new(Disk::default());
        self.disks.push(disk.clone());
        self.nodes.push(Rc::new(Node::new(&self.world, NODES, disk, None, &self.wait)));
        for node in 0..=NODES {
            let before = self.world.borrow().counts.reads;
            let request = (Request::Read, Some(node), 0);
            self.clients = vec![Client { left: 0, current: None, again: Some(request) }];
            self.until_idle(20_000);
            if !self.is_violated() && self.world.borrow().counts.reads == before {
                self.world.borrow_mut().violate(|| format!("node {node} cannot read after the faults"));
            }
        }
        if self.is_violated() {
            return;
        }
        let fresh = self.disks[NODES].inode.borrow().as_ref().map(|inode| inode.bytes.borrow().clone());
        let mut world = self.world.borrow_mut();
        if fresh.as_ref() != world.durable.last() {
            world.violate(|| "a new node does not have the durable bytes".to_owned());
        }
        let (main, side): (Hash, Hash) = (world.main, world.side);
        let fresh = fresh.unwrap_or_default();
        let checked = crate::engine::Index::open(&fresh).and_then(|index| {
            if side != 0 {
                index.list(side)?;
            }
            index.list(main)
        });
        if checked.as_ref() != Ok(&world.history) {
            world.violate(|| format!("a new node has {checked:?}"));
        }
    }
}

/// Chooses what may fail in a schedule. Few kinds at once leave the others room to do their work.
fn faults(world: &mut World) -> Faults {
    let random = &mut world.random;
    let mut some = |share: u64, most: u64| if random.chance(share) { 1 + random.below(most) } else { 0 };
    Faults {
        records: some(500, 120),
        objects: some(350, 120),
        bytes: some(250, 150),
        files: some(250, 100),
        freeze: some(500, 25),
        crash: some(350, 12),
        damage: some(200, 150),
        rot: some(200, 15),
        slow: some(500, 500),
    }
}
