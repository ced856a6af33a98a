mod crash;
mod deletion;
mod faults;
mod holders;
mod names;
mod road;
mod roles;
mod site;
