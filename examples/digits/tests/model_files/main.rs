//! The model's file formats: the real files, and files that are broken or mean harm.

mod fields;
mod forge;
mod fuzz;
mod image_broken;
mod image_layout;
mod paths;
mod real;
mod safetensors_broken;
