mod road;
mod site;
