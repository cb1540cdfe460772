//! Places plain structs on plain structs; no Kubernetes type is involved.
//!
//! `cargo run -p kruntimes-sched --example own_types` prints where each parcel goes.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;

use jiff::Timestamp;
use kruntimes_core::quantity::Quantity;
use kruntimes_core::resources::Amounts;
use kruntimes_sched::batch::{Candidate, Fleet, Limits, plan_batch};
use kruntimes_sched::{Book, Place, Placeable, Pod, Run, plugins};

struct Parcel(&'static str, i64);
struct Truck(&'static str, i64);

fn kilos(amount: i64) -> Amounts {
    Amounts::from([("kg".to_owned(), Quantity::from_whole(amount))])
}

impl Placeable for Parcel {
    fn namespace(&self) -> &'static str {
        "depot"
    }
    fn name(&self) -> &str {
        self.0
    }
    fn uid(&self) -> &str {
        self.0
    }
    fn request(&self) -> Amounts {
        kilos(self.1)
    }
}

impl Place for Truck {
    fn name(&self) -> &str {
        self.0
    }
    fn uid(&self) -> &str {
        self.0
    }
    fn capacity(&self) -> Amounts {
        kilos(self.1)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let trucks = [Truck("van", 10), Truck("lorry", 40)].map(|truck| Pod::of(&truck));
    let parcels = [Parcel("piano", 30), Parcel("sofa", 12), Parcel("books", 8)];
    let parcels = parcels.map(|parcel| Candidate::new(Run::of(&parcel)));
    let fleet = Fleet::new(Timestamp::UNIX_EPOCH, Book::new()).pool("depot", "", trucks);
    let plan = plan_batch(
        &fleet,
        parcels,
        &plugins::standard().build()?,
        Limits::default(),
    );
    for planned in &plan.planned {
        let truck = planned
            .pod
            .as_ref()
            .map_or("waits", |pod| pod.name.as_str());
        println!("{}: {truck}", planned.run.name);
    }
    assert_eq!(plan.binds().count(), 2, "the sofa waits for the next lorry");
    Ok(())
}

#[test]
fn s_145_own_types_are_placed_in_sixty_lines() -> Result<(), Box<dyn Error>> {
    main()
}
