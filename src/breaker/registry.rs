//! One breaker per key: a host, a tenant, a model.

use std::borrow::{Borrow, Cow};
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use papaya::HashMap;

use super::config::BreakerConfig;
use super::core::Facts;
use super::handle::Breaker;
use super::news::{Listeners, Seen};
use super::rules::Rules;
use super::stage::{pick, settings};
use crate::config::ConfigError;
use crate::moment::Moment;
use crate::name::Name;
use crate::telemetry::{Observer, Observers};

/// One breaker per key, made when the key is first asked for.
///
/// A handle: clones are the same registry.
///
/// Bounded in number and in idle time, so that keys out of requests cannot
/// fill the memory. What is dropped is forgotten: a breaker whose key comes
/// again begins closed and empty. So it is never dropped while it knows
/// something: not while it is open, half-open, recovering or steered by hand,
/// not while it has heard of a failure within the idle time, and not while a
/// call, a permit or a handle of it is held. When a newcomer finds no room it
/// shares one *overflow* breaker with all others in its place, counted by
/// [`overflowed`](Self::overflowed).
///
/// A known key costs one look-up without a lock, whatever their number. A new
/// one takes a lock and looks at no more than a few others.
///
/// # Default
///
/// 10,000 keys; ten minutes of idle time. A key that succeeded only is dropped
/// sooner when its room is needed.
///
/// # Examples
///
/// ```
/// use steadfast::{BreakerConfig, BreakerState, Breakers};
///
/// let hosts: Breakers<String> = Breakers::new("hosts", BreakerConfig::consecutive(1))?;
/// hosts.get("a.example").admit().unwrap().failure();
/// assert_eq!(hosts.get("a.example").state(), BreakerState::Open);
/// assert_eq!(hosts.get("b.example").state(), BreakerState::Closed);
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
pub struct Breakers<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    name: Name,
    facts: Arc<Facts>,
    max_keys: usize,
    idle: Duration,
    map: HashMap<K, Entry, RandomState>,
    /// All keys of the map, those to be looked at next in front.
    queue: Mutex<VecDeque<Queued<K>>>,
    overflow: Breaker,
    overflowed: AtomicU64,
    /// Who hears of the breakers of all keys. Locked while the queue is, or
    /// alone.
    observers: Mutex<Observers>,
    naming: OnceLock<Naming<K>>,
}

/// What events and snapshots call a key.
type Naming<K> = Box<dyn Fn(&K) -> String + Send + Sync>;

struct Entry {
    breaker: Breaker,
    /// Asked for since it was last looked at.
    touched: AtomicBool,
    /// Being dropped.
    retired: AtomicBool,
}

struct Queued<K> {
    key: K,
    /// When it was last known to be in use.
    used: Moment,
}

/// How many keys a newcomer looks at to find one that is not in use, and how
/// many more to find any that can go.
const LOOKS: usize = 32;
/// How many it looks at for idle ones when there is room.
const TIDIES: usize = 2;

impl<K: Hash + Eq + Clone> Breakers<K> {
    /// A registry with the default bounds.
    ///
    /// # Errors
    ///
    /// Settings that cannot work, by field and value.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        config: BreakerConfig,
    ) -> Result<Self, ConfigError> {
        Self::bounded(name, config, 10_000, Duration::from_secs(600))
    }

    /// A registry of at most `max_keys` keys, which drops those that have not
    /// been asked for and have not failed for `idle`.
    ///
    /// # Errors
    ///
    /// Settings that cannot work, by field and value; among them no keys, and
    /// an idle time of zero.
    pub fn bounded(
        name: impl Into<Cow<'static, str>>,
        config: BreakerConfig,
        max_keys: usize,
        idle: Duration,
    ) -> Result<Self, ConfigError> {
        if max_keys == 0 {
            let problem = "must be at least 1";
            return Err(ConfigError::new("breakers.max_keys", 0, problem));
        }
        if idle.is_zero() {
            let problem = "must be above 0, or every failure is forgotten at once";
            return Err(ConfigError::new("breakers.idle", "0ns", problem));
        }
        let name = Name::new(name.into());
        let facts = Arc::new(Facts::new(name, &config)?);
        drop(config);
        Ok(Self {
            shared: Arc::new(Shared {
                name,
                overflow: Breaker::of(Arc::clone(&facts)),
                facts,
                max_keys,
                idle,
                map: HashMap::new(),
                queue: Mutex::new(VecDeque::new()),
                overflowed: AtomicU64::new(0),
                observers: Mutex::new(Observers::NONE),
                naming: OnceLock::new(),
            }),
        })
    }

    /// The key's breaker, or the overflow breaker if there is no room for a
    /// new one.
    pub fn get<Q>(&self, key: &Q) -> Breaker
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.known(key)
            .unwrap_or_else(|| self.shared.admit_key(key.to_owned()))
    }

    fn known<Q>(&self, key: &Q) -> Option<Breaker>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let map = self.shared.map.pin();
        let entry = map.get(key)?;
        let breaker = entry.breaker.clone();
        // Pairs with the fence in `retire`: either this handle is counted
        // there, or the retirement is seen here.
        fence(Ordering::SeqCst);
        if entry.retired.load(Ordering::Relaxed) {
            return None;
        }
        if !entry.touched.load(Ordering::Relaxed) {
            entry.touched.store(true, Ordering::Relaxed);
        }
        Some(breaker)
    }
}

impl<K> Breakers<K> {
    /// How many keys have a breaker of their own now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.lock().len()
    }

    /// Whether no key has one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often a key was given the overflow breaker.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.shared.overflowed.load(Ordering::Relaxed)
    }

    /// The name of all its breakers in refusals and events.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.shared.name.as_str()
    }
}

impl<K: Hash + Eq + Clone> Breakers<K> {
    /// Tells `observer` of the changes of state of all its breakers from now
    /// on, for as long as they live; once, however often the same one is given.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "`Arc::new(..)` is what it is given"
    )]
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.observe_as(&observer);
    }

    fn observe_as(&self, observer: &Arc<dyn Observer>) {
        let shared = &*self.shared;
        {
            let mut observers = shared.observers();
            let Some(more) = observers.and(observer) else {
                return;
            };
            *observers = more;
        }
        // Whatever is made from here on has heard of it.
        shared.overflow.observe_as(observer);
        for (key, breaker) in self.all() {
            let name = shared.name_of(&key);
            if let Some(seen) = breaker.core().observe(observer, name) {
                seen.tell();
            }
        }
    }

    /// The breakers of all keys, in no particular order. They are copied out
    /// under a lock, and held: as long as any is, its key stays.
    pub(crate) fn all(&self) -> Vec<(K, Breaker)> {
        let queue = self.shared.lock();
        let map = self.shared.map.pin();
        let breakers = queue.iter().filter_map(|queued| {
            let breaker = map.get(&queued.key)?.breaker.clone();
            Some((queued.key.clone(), breaker))
        });
        breakers.collect()
    }

    /// What events, metrics and snapshots call a key; without, they have no
    /// name for it. Once for all clones, and the first word on it holds.
    ///
    /// Who observes the breakers keeps what it hears of: a name out of requests
    /// makes as many names as there are requests. A name may stand for several
    /// keys.
    ///
    /// # Examples
    ///
    /// ```
    /// use steadfast::{BreakerConfig, Breakers};
    ///
    /// let hosts = Breakers::<String>::new("hosts", BreakerConfig::default())?
    ///     .naming_keys(|host| host.clone());
    /// # Ok::<(), steadfast::ConfigError>(())
    /// ```
    #[must_use]
    pub fn naming_keys(self, name: impl Fn(&K) -> String + Send + Sync + 'static) -> Self {
        self.shared.naming.set(Box::new(name)).ok();
        self
    }

    /// Drops all keys that are idle now. Newcomers do it bit by bit; call it
    /// where there may be none for long.
    pub fn drop_idle(&self) {
        let shared = &*self.shared;
        let mut queue = shared.lock();
        let now = Moment::now();
        let mut seen = Vec::new();
        for _ in 0..queue.len() {
            shared.look(&mut queue, now, Wanted::Idle, &mut seen);
        }
        drop(queue);
        seen.iter().for_each(Seen::tell);
    }
}

/// Which keys may be dropped, of those that know nothing.
#[derive(Clone, Copy)]
enum Wanted {
    /// Those not asked for within the idle time.
    Idle,
    /// Those not asked for since they were last looked at.
    Unused,
    Any,
}

/// What came of looking at a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looked {
    Dropped,
    Kept,
}

impl<K> Shared<K> {
    fn observers(&self) -> MutexGuard<'_, Observers> {
        self.observers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Queued<K>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq + Clone> Shared<K> {
    /// Makes the breaker of a new key, if there is room or some can be made.
    #[cold]
    fn admit_key(&self, key: K) -> Breaker {
        let name = self.name_of(&key);
        let mut seen = Vec::new();
        let breaker = self.admit_named(key, name, &mut seen);
        // Outside of the lock: who hears of it may ask the registry.
        seen.iter().for_each(Seen::tell);
        breaker
    }

    fn name_of(&self, key: &K) -> Option<Box<str>> {
        let naming = self.naming.get()?;
        Some(naming(key).into_boxed_str())
    }

    fn admit_named(&self, key: K, name: Option<Box<str>>, seen: &mut Vec<Seen>) -> Breaker {
        let mut queue = self.lock();
        let map = self.map.pin();
        // Another thread was first, or the key was about to be dropped; while
        // the queue is locked none is.
        if let Some(entry) = map.get(&key) {
            return entry.breaker.clone();
        }
        let now = Moment::now();
        for _ in 0..TIDIES {
            self.look(&mut queue, now, Wanted::Idle, seen);
        }
        if queue.len() >= self.max_keys && !self.make_room(&mut queue, now, seen) {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
            return self.overflow.clone();
        }
        let breaker = Breaker::of(Arc::clone(&self.facts));
        let observers = self.observers().clone();
        if observers.listen() {
            let listeners = Listeners {
                observers,
                key: name,
            };
            seen.push(breaker.core().begin_observed(listeners));
        }
        let entry = Entry {
            breaker: breaker.clone(),
            touched: AtomicBool::new(false),
            retired: AtomicBool::new(false),
        };
        map.insert(key.clone(), entry);
        queue.push_back(Queued { key, used: now });
        breaker
    }

    /// Drops one key that knows nothing: one that was not asked for lately if
    /// a few looks find one, else any.
    fn make_room(
        &self,
        queue: &mut VecDeque<Queued<K>>,
        now: Moment,
        seen: &mut Vec<Seen>,
    ) -> bool {
        let looks = LOOKS.min(queue.len());
        let mut drops =
            |wanted| (0..looks).any(|_| self.look(queue, now, wanted, seen) == Looked::Dropped);
        drops(Wanted::Unused) || drops(Wanted::Any)
    }

    /// Looks at the key in front: drops it, or puts it at the end.
    fn look(
        &self,
        queue: &mut VecDeque<Queued<K>>,
        now: Moment,
        wanted: Wanted,
        seen: &mut Vec<Seen>,
    ) -> Looked {
        let Some(mut front) = queue.pop_front() else {
            return Looked::Kept;
        };
        let map = self.map.pin();
        let Some(entry) = map.get(&front.key) else {
            return Looked::Dropped;
        };
        let touched = entry.touched.swap(false, Ordering::Relaxed);
        if touched {
            front.used = now;
        }
        let may_go = match wanted {
            Wanted::Idle => now.since(front.used) >= self.idle,
            Wanted::Unused => !touched,
            Wanted::Any => true,
        };
        if may_go && self.retire(entry, now) {
            seen.extend(entry.breaker.core().unobserve());
            map.remove(&front.key);
            return Looked::Dropped;
        }
        queue.push_back(front);
        Looked::Kept
    }

    /// Whether this entry may go. Nobody gets a handle of it from then on.
    fn retire(&self, entry: &Entry, now: Moment) -> bool {
        if !entry.breaker.core().is_forgettable(now, self.idle) {
            return false;
        }
        entry.retired.store(true, Ordering::Relaxed);
        // Pairs with the fence in `known`.
        fence(Ordering::SeqCst);
        let unheld = entry.breaker.is_unshared();
        // A call that ended in the meantime may have failed: whoever finds its
        // handle gone finds what it left behind.
        fence(Ordering::Acquire);
        let goes = unheld && entry.breaker.core().is_forgettable(now, self.idle);
        if !goes {
            entry.retired.store(false, Ordering::Relaxed);
        }
        goes
    }
}

impl<K> Clone for Breakers<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K> fmt::Debug for Breakers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breakers")
            .field("name", &self.shared.name)
            .field("max_keys", &self.shared.max_keys)
            .field("idle", &self.shared.idle)
            .finish_non_exhaustive()
    }
}

/// A breaker for each key that `F` finds in a request; made by
/// [`PolicyBuilder::breakers`](crate::PolicyBuilder::breakers).
pub struct KeyedBreakers<K, Q: ?Sized, F> {
    registry: Breakers<K>,
    key: F,
    borrowed: PhantomData<fn(&Q)>,
}

impl<K, Q: ?Sized, F> KeyedBreakers<K, Q, F> {
    pub(crate) const fn new(registry: Breakers<K>, key: F) -> Self {
        Self {
            registry,
            key,
            borrowed: PhantomData,
        }
    }
}

impl<K, Q: ?Sized, F> fmt::Debug for KeyedBreakers<K, Q, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.registry.fmt(f)
    }
}

impl<Req, K, Q, F> pick::Pick<Req> for KeyedBreakers<K, Q, F>
where
    K: Hash + Eq + Clone + Borrow<Q>,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    F: Fn(&Req) -> &Q,
{
    type Picked = Breaker;

    fn pick(&self, request: &Req) -> Breaker {
        self.registry.get((self.key)(request))
    }

    fn breaker<'a>(&'a self, picked: &'a Breaker) -> Option<&'a Breaker> {
        Some(picked)
    }
}

impl<K: Hash + Eq + Clone, Q: ?Sized, F> settings::Settings for KeyedBreakers<K, Q, F> {
    fn rules(&self) -> Option<Rules> {
        Some(self.registry.shared.facts.rules)
    }

    fn observe(&self, observer: &Arc<dyn Observer>) {
        self.registry.observe_as(observer);
    }

    #[cfg(feature = "serde")]
    fn snapshots(&self, now: Moment) -> Vec<crate::NamedBreaker> {
        let shared = &self.registry.shared;
        let keyed = self.registry.all().into_iter();
        let keyed = keyed.map(|(key, breaker)| (shared.name_of(&key).map(String::from), breaker));
        let has_overflowed = self.registry.overflowed() > 0;
        let overflow = has_overflowed.then(|| (None, shared.overflow.clone()));
        let all = keyed.chain(overflow);
        all.map(|(key, one)| crate::NamedBreaker::new(key, one.core().snapshot(now)))
            .collect()
    }
}
