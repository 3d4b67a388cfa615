//! The tasks that have been started, each in a seat.

use crate::worker::table::Started;

/// Where a started task sits. A seat is used again, a number never is: whoever comes too late finds nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    /// The number the task got when it was leased.
    pub(crate) number: u64,
    position: u32,
}

/// A list with holes: tasks come and go with every turn, and a tree was a twentieth of a worker's time. What
/// is done to all is done in the order of the seats, which depends on nothing but who came and went: a
/// simulation repeats itself.
#[derive(Default)]
pub(crate) struct Seats {
    list: Vec<Option<(u64, Started)>>,
    free: Vec<u32>,
}

impl Seats {
    pub(crate) fn take(&mut self, number: u64, started: Started) -> Seat {
        let taken = Some((number, started));
        let position = match self.free.pop() {
            Some(position) => {
                self.list[position as usize] = taken;
                position
            }
            None => {
                self.list.push(taken);
                u32::try_from(self.list.len() - 1).expect("no worker runs four thousand million tasks")
            }
        };
        Seat { number, position }
    }

    pub(crate) fn get(&self, seat: Seat) -> Option<&Started> {
        let (number, started) = self.list.get(seat.position as usize)?.as_ref()?;
        (*number == seat.number).then_some(started)
    }

    pub(crate) fn get_mut(&mut self, seat: Seat) -> Option<&mut Started> {
        let (number, started) = self.list.get_mut(seat.position as usize)?.as_mut()?;
        (*number == seat.number).then_some(started)
    }

    pub(crate) fn leave(&mut self, seat: Seat) {
        let place = self.list.get_mut(seat.position as usize);
        if let Some(place) =
            place.filter(|place| matches!(place, Some((number, _)) if *number == seat.number))
        {
            *place = None;
            self.free.push(seat.position);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.list.len()
    }

    /// All of them, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Started)> {
        self.list.iter().flatten().map(|(number, started)| (*number, started))
    }

    /// All of them, with their numbers.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Started)> {
        self.list.iter_mut().flatten().map(|(number, started)| (*number, started))
    }
}
