//! The started tasks, each in a slot.

use crate::worker::table::Started;

/// The position of a started task. Positions are reused, numbers are not: a stale `Slot` finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The number the task got when it was leased.
    pub(crate) number: u64,
    position: u32,
}

/// A slab: a tree took a twentieth of a worker's time. Iteration is in the order of positions, which depends
/// only on the order of starts and ends, so that a simulation is deterministic.
#[derive(Default)]
pub(crate) struct Slots {
    list: Vec<Option<(u64, Started)>>,
    free: Vec<u32>,
}

impl Slots {
    pub(crate) fn insert(&mut self, number: u64, started: Started) -> Slot {
        let taken = Some((number, started));
        let position = match self.free.pop() {
            Some(position) => {
                self.list[position as usize] = taken;
                position
            }
            None => {
                self.list.push(taken);
                u32::try_from(self.list.len() - 1).expect("concurrency is at most 100,000")
            }
        };
        Slot { number, position }
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Started> {
        let (number, started) = self.list.get(slot.position as usize)?.as_ref()?;
        (*number == slot.number).then_some(started)
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut Started> {
        let (number, started) = self.list.get_mut(slot.position as usize)?.as_mut()?;
        (*number == slot.number).then_some(started)
    }

    pub(crate) fn release(&mut self, slot: Slot) {
        let place = self.list.get_mut(slot.position as usize);
        if let Some(place) =
            place.filter(|place| matches!(place, Some((number, _)) if *number == slot.number))
        {
            *place = None;
            self.free.push(slot.position);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.list.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Started)> {
        self.list.iter().flatten().map(|(number, started)| (*number, started))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Started)> {
        self.list.iter_mut().flatten().map(|(number, started)| (*number, started))
    }
}
